-- What follows when a run of a handler ends and has not succeeded; see core/handler.py.

-- name: handler_of_run
SELECT handler, handler_key, lane FROM onward_run
WHERE namespace = :namespace AND uid = :run;

-- name: effect_of_handler_run
-- The newest effect of a run or, if it has none, of the runs that it retries.
WITH RECURSIVE line(uid, place) AS (
    SELECT uid, 0 FROM onward_run WHERE namespace = :namespace AND uid = :run
    UNION ALL
    SELECT r.follows, l.place + 1 FROM line l
    CROSS JOIN onward_run r
        ON r.namespace = :namespace AND r.uid = l.uid AND r.link = 'retry_of'
)
SELECT e.state FROM line l
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = :namespace AND e.run = l.uid AND e.run IS NOT NULL
WHERE e.state <> 'withdrawn'
ORDER BY l.place, e.created_at DESC, e.key LIMIT 1;

-- name: end_owned_run
UPDATE onward_run
SET state = :state, reason = :reason, phase = coalesce(CAST(:phase AS TEXT), phase), due = NULL,
    worker = NULL, crashes = 0, held_by = '',
    seq = CASE WHEN CAST(:seq AS BIGINT) > seq THEN CAST(:seq AS BIGINT) ELSE seq END,
    error_type = :error_type, failed_step = :failed_step, finished_at = :now, updated_at = :now
WHERE namespace = :namespace AND uid = :uid
RETURNING queue;

-- name: release_deliveries
-- The events can be reserved again, unless they were given back for a fault too often.
UPDATE onward_delivery INDEXED BY onward_delivery_reserved
SET state = CASE WHEN releases + CAST(:fault AS BIGINT) >= CAST(:max AS BIGINT)
                 THEN 'skipped' ELSE 'pending' END,
    run = CASE WHEN releases + CAST(:fault AS BIGINT) >= CAST(:max AS BIGINT) THEN run END,
    attempt = attempt + CASE WHEN releases + CAST(:fault AS BIGINT) >= CAST(:max AS BIGINT)
                             THEN 0 ELSE 1 END,
    reason = CASE WHEN releases + CAST(:fault AS BIGINT) >= CAST(:max AS BIGINT)
                  THEN 'quarantined' END,
    releases = releases + CAST(:fault AS BIGINT), updated_at = :now
WHERE namespace = :namespace AND run = :run AND state = 'reserved'
RETURNING handler, key, topic, event, state;

-- name: hand_over_deliveries
UPDATE onward_delivery INDEXED BY onward_delivery_reserved
SET run = :new_uid, updated_at = :now
WHERE namespace = :namespace AND run = :old AND state = 'reserved';

-- name: hand_over_causes
INSERT INTO onward_cause (namespace, kind, target, input)
SELECT namespace, kind, CAST(:new_uid AS TEXT), input FROM onward_cause
WHERE namespace = :namespace AND kind = 'run' AND target = :old
ON CONFLICT DO NOTHING;

-- name: position_of_next
-- Where a run that goes on after the effect of another begins: all before it is copied.
SELECT min(seq) FROM onward_record
WHERE namespace = :namespace AND run = :run AND seq IS NOT NULL
  AND (kind = 'step' AND name = 'next' OR kind = 'cancel');

-- name: block_handler
UPDATE onward_handler
SET blocked_by = :run, blocked_code = :code, failures = failures + 1, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key;

-- name: free_handler
UPDATE onward_handler SET blocked_by = NULL, blocked_code = NULL, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key
  AND coalesce(blocked_by, '') = :run
RETURNING handler;

-- name: lane_holders
-- The run that is open in a lane, and the runs that block it.
SELECT r.uid, 'open' FROM onward_run r INDEXED BY onward_run_lane
WHERE r.namespace = :namespace AND r.lane = :lane AND r.lane IS NOT NULL
  AND r.state IN ('ready', 'running', 'waiting', 'paused')
UNION ALL
SELECT h.blocked_by, 'blocking' FROM onward_handler h INDEXED BY onward_handler_blocked
WHERE h.namespace = :namespace AND h.lane = :lane AND h.blocked_by IS NOT NULL;

-- name: blocked_handlers
SELECT handler, key, kind, blocked_by, blocked_code, failures
FROM onward_handler INDEXED BY onward_handler_blocked
WHERE namespace = :namespace AND blocked_by IS NOT NULL AND removed = 0
  AND handler IN (SELECT value FROM json_each(:handlers))
ORDER BY handler, key LIMIT :limit;
