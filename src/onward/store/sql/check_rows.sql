-- What must hold for rows that need not belong to a run that is there: at most the last `:limit` of each
-- table are read. See check.sql.

-- name: check_orphan_data
-- a data row belongs to a run
SELECT d.uid FROM (
    SELECT namespace, uid FROM onward_run_data
    WHERE namespace = :namespace ORDER BY uid DESC LIMIT CAST(:limit AS BIGINT)) d
WHERE (SELECT 1 FROM onward_run r WHERE r.namespace = d.namespace AND r.uid = d.uid) IS NULL;

-- name: check_orphan_record
-- a record belongs to a run
SELECT DISTINCT h.run FROM (
    SELECT namespace, run FROM onward_record
    WHERE namespace = :namespace ORDER BY run DESC LIMIT CAST(:limit AS BIGINT)) h
WHERE (SELECT 1 FROM onward_run r WHERE r.namespace = h.namespace AND r.uid = h.run) IS NULL;

-- name: check_orphan_message
-- a message belongs to a run
SELECT DISTINCT i.run FROM (
    SELECT namespace, run FROM onward_inbox
    WHERE namespace = :namespace ORDER BY run DESC LIMIT CAST(:limit AS BIGINT)) i
WHERE (SELECT 1 FROM onward_run r WHERE r.namespace = i.namespace AND r.uid = i.run) IS NULL;

-- name: check_orphan_effect
-- a ledger row belongs to a run
SELECT e.key FROM (
    SELECT namespace, key, run FROM onward_effect INDEXED BY onward_effect_run
    WHERE namespace = :namespace AND run IS NOT NULL
    ORDER BY run DESC LIMIT CAST(:limit AS BIGINT)) e
WHERE (SELECT 1 FROM onward_run r WHERE r.namespace = e.namespace AND r.uid = e.run) IS NULL;

-- name: check_delivery
-- a delivery has an event, and a reserved delivery has a run that exists
SELECT d.event FROM (
    SELECT namespace, event, state, run FROM onward_delivery
    WHERE namespace = :namespace ORDER BY handler DESC, event DESC LIMIT CAST(:limit AS BIGINT)) d
WHERE (SELECT 1 FROM onward_event e WHERE e.namespace = d.namespace AND e.uid = d.event) IS NULL
   OR d.state = 'reserved' AND (
       SELECT 1 FROM onward_run r WHERE r.namespace = d.namespace AND r.uid = d.run) IS NULL;

-- name: check_delivery_holder
-- the run that has reserved an event is open, or blocks its handler
SELECT d.event FROM (
    SELECT namespace, handler, key, event, run FROM onward_delivery INDEXED BY onward_delivery_reserved
    WHERE namespace = :namespace AND state = 'reserved'
    ORDER BY run DESC LIMIT CAST(:limit AS BIGINT)) d
CROSS JOIN onward_run r ON r.namespace = d.namespace AND r.uid = d.run
WHERE r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out')
  AND (SELECT 1 FROM onward_handler h
       WHERE h.namespace = d.namespace AND h.handler = d.handler AND h.key = d.key
         AND h.blocked_by = d.run) IS NULL;

-- name: check_delivery_work
-- an event that is pending for a handler and a key was counted as work for them
SELECT d.event FROM (
    SELECT namespace, handler, key, event FROM onward_delivery INDEXED BY onward_delivery_pending
    WHERE namespace = :namespace AND state = 'pending' LIMIT CAST(:limit AS BIGINT)) d
WHERE (SELECT 1 FROM onward_handler h
       WHERE h.namespace = d.namespace AND h.handler = d.handler AND h.key = d.key
         AND h.published > 0) IS NULL;

-- name: check_lane
-- only one run of a lane is open at a time
SELECT lane FROM (
    SELECT lane FROM onward_run
    WHERE namespace = :namespace AND lane IS NOT NULL
      AND state IN ('ready', 'running', 'waiting', 'paused')
    ORDER BY lane LIMIT CAST(:limit AS BIGINT)) r
GROUP BY lane HAVING count(*) > 1;

-- name: check_subscription
-- a subscription has counted all of its consumed and skipped events
SELECT s.handler FROM onward_subscription s
WHERE s.namespace = :namespace AND (
    s.consumed < (SELECT count(*) FROM (
        SELECT 1 FROM onward_delivery d
        WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
          AND d.state = 'consumed' LIMIT CAST(:limit AS BIGINT)) c)
    OR s.skipped < (SELECT count(*) FROM (
        SELECT 1 FROM onward_delivery d
        WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
          AND d.state = 'skipped' LIMIT CAST(:limit AS BIGINT)) c));

-- name: check_input
-- an input counts the deliveries of its events that are pending or reserved
SELECT i.uid FROM (
    SELECT namespace, uid, open FROM onward_input
    WHERE namespace = :namespace ORDER BY uid DESC LIMIT CAST(:limit AS BIGINT)) i
WHERE i.open <> (
    SELECT count(*) FROM onward_cause c INDEXED BY onward_cause_input
    CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
        ON d.namespace = c.namespace AND d.event = c.target
    WHERE c.namespace = i.namespace AND c.kind = 'event' AND c.input = i.uid
      AND d.state IN ('pending', 'reserved'));

-- name: check_slot
-- a slot has one disposition, and its schedule has advanced to that slot unless the slot has a run
SELECT s.schedule FROM (
    SELECT namespace, schedule, at, until, slots, timing FROM onward_slot INDEXED BY onward_slot_newest
    WHERE namespace = :namespace
    ORDER BY schedule DESC, until DESC LIMIT CAST(:limit AS BIGINT)) s
WHERE s.at < s.until AND s.slots > 0 AND (
    SELECT 1 FROM onward_slot o
    WHERE o.namespace = s.namespace AND o.schedule = s.schedule AND o.until >= s.at
      AND o.at <= s.until AND o.timing = s.timing AND (o.at <> s.at OR o.until <> s.until)
      AND o.run IS NULL LIMIT 1) IS NOT NULL
UNION ALL
SELECT s.schedule FROM (
    SELECT namespace, schedule, until, run FROM onward_slot INDEXED BY onward_slot_newest
    WHERE namespace = :namespace
    ORDER BY schedule DESC, until DESC LIMIT CAST(:limit AS BIGINT)) s
WHERE (SELECT 1 FROM onward_schedule c
       WHERE c.namespace = s.namespace AND c.name = s.schedule
         AND (c.decided_to >= s.until OR s.run IS NOT NULL)) IS NULL;
