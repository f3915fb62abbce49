-- Which handlers have work, and the runs that are started for it.

-- part: candidate
h.handler, h.key, h.kind, h.lane, h.queue, h.published, h.next_id, h.next_slot,
h.wake_at IS NOT NULL AND h.wake_at <= :now AS is_woken,
(SELECT min((SELECT e.created_at FROM onward_event e
             WHERE e.namespace = h.namespace AND e.uid = (
                 SELECT d.event FROM onward_delivery d INDEXED BY onward_delivery_pending
                 WHERE d.namespace = h.namespace AND d.handler = h.handler AND d.topic = s.topic
                   AND d.key = h.key AND d.state = 'pending'
                 ORDER BY d.seq LIMIT 1)))
 FROM onward_subscription s INDEXED BY onward_subscription_handler
 WHERE s.namespace = h.namespace AND s.handler = h.handler) AS oldest

-- part: may_launch
-- Its lane is free, and neither the pipeline nor all pipelines are paused. Subqueries and no joins, so
-- that no plan can read the runs of other lanes.
(SELECT 1 FROM onward_run r INDEXED BY onward_run_lane
 WHERE r.namespace = h.namespace AND r.lane = h.lane AND r.lane IS NOT NULL
   AND r.state IN ('ready', 'running', 'waiting', 'paused') LIMIT 1) IS NULL
AND (SELECT 1 FROM onward_handler b INDEXED BY onward_handler_blocked
     WHERE b.namespace = h.namespace AND b.lane = h.lane AND b.blocked_by IS NOT NULL
     LIMIT 1) IS NULL
AND (SELECT max(p.paused) FROM onward_pipeline p
     WHERE p.namespace = h.namespace AND p.name = h.pipeline) = 0
AND coalesce((SELECT max(p.paused) FROM onward_pipeline p
              WHERE p.namespace = h.namespace AND p.name = ''), 0) = 0

-- name: handlers_with_work
-- Those after a handler and key: there may be more than are looked at in one turn.
SELECT {candidate}
FROM (SELECT * FROM onward_handler h INDEXED BY onward_handler_work
      WHERE h.namespace = :namespace AND h.published > h.seen AND h.removed = 0
        AND (h.handler, h.key) > (:after_handler, :after_key)
        AND h.handler IN (SELECT value FROM json_each(:handlers))
        AND h.queue IN (SELECT value FROM json_each(:queues))
        AND {may_launch}
      ORDER BY h.handler, h.key
      LIMIT :limit) h
ORDER BY h.handler, h.key;

-- name: woken_handlers
SELECT {candidate}
FROM onward_handler h INDEXED BY onward_handler_wake
WHERE h.namespace = :namespace AND h.wake_at IS NOT NULL AND h.wake_at <= :now AND h.removed = 0
  AND h.published <= h.seen
  AND h.handler IN (SELECT value FROM json_each(:handlers))
  AND h.queue IN (SELECT value FROM json_each(:queues))
  AND {may_launch}
ORDER BY h.wake_at
LIMIT :limit;

-- name: launch_run
-- Nothing, if another run of the lane is open or the id is taken.
INSERT INTO onward_run (
    namespace, uid, id, kind, name, queue, state, due, handler, handler_key, lane, schedule,
    scheduled_at, created_at, updated_at)
VALUES (:namespace, :uid, :id, :kind, :name, :queue, 'ready', :now, :handler, :key, :lane,
        :schedule, coalesce(CAST(:slot AS BIGINT), :now), :now, :now)
ON CONFLICT DO NOTHING
RETURNING uid;

-- name: take_work
-- A producer has seen what it was raised for once its run exists. A consumer's preparation says what
-- it has seen.
UPDATE onward_handler
SET seen = CASE WHEN kind = 'producer' AND CAST(:published AS BIGINT) > seen
                THEN CAST(:published AS BIGINT) ELSE seen END,
    next_id = NULL, next_slot = NULL, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key;

-- name: forget_work
-- What was published is gone: it was skipped, or another run has consumed it.
UPDATE onward_handler SET seen = CAST(:published AS BIGINT), updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key
  AND seen < CAST(:published AS BIGINT);

-- name: raise_producer
-- The next slot of its schedule has come; one that has not begun yet is replaced by it.
UPDATE onward_handler
SET published = published + 1, next_id = :id, next_slot = :slot, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = '' AND kind = 'producer'
  AND removed = 0
RETURNING queue;

-- name: open_work_of_producer
-- Its open run, or the id of the run that it waits for.
SELECT coalesce((SELECT r.uid FROM onward_run r INDEXED BY onward_run_handler
                 WHERE r.namespace = h.namespace AND r.handler = h.handler
                   AND r.handler IS NOT NULL
                   AND r.state IN ('ready', 'running', 'waiting', 'paused')
                 ORDER BY r.uid DESC LIMIT 1), h.next_id, h.handler)
FROM onward_handler h
WHERE h.namespace = :namespace AND h.handler = :handler AND h.key = ''
  AND (h.published > h.seen OR EXISTS (
      SELECT 1 FROM onward_run r INDEXED BY onward_run_handler
      WHERE r.namespace = h.namespace AND r.handler = h.handler AND r.handler IS NOT NULL
        AND r.state IN ('ready', 'running', 'waiting', 'paused')));
