-- What commits of runs write to pipelines. Rows are locked in this order: effects, runs, handlers,
-- topics, deliveries, inputs.

-- name: run_fences
SELECT r.uid, r.state, r.fence, r.inbox, r.worker FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value;

-- name: state_versions
SELECT h.handler, h.key, h.state_version
FROM json_each(:handlers) j JOIN json_each(:keys) k ON k.key = j.key
CROSS JOIN onward_handler h
    ON h.namespace = :namespace AND h.handler = j.value AND h.key = k.value;

-- name: lock_deliveries
-- In the order of the events that are given.
SELECT d.event, d.state, d.run, d.attempt, d.key FROM json_each(:events) u
CROSS JOIN onward_delivery d
    ON d.namespace = :namespace AND d.handler = :handler AND d.event = u.value
FOR UPDATE;

-- name: reserve_deliveries
-- Found one by one: otherwise Postgres may read all that is pending.
UPDATE onward_delivery SET state = 'reserved', run = :run, updated_at = :now
WHERE (namespace, handler, event) IN (
    SELECT d.namespace, d.handler, d.event FROM json_each(:events) u
    CROSS JOIN onward_delivery d
        ON d.namespace = :namespace AND d.handler = :handler AND d.event = u.value
    WHERE d.state = 'pending');

-- name: set_origin
UPDATE onward_run SET origin = :origin WHERE namespace = :namespace AND uid = :run;

-- name: note_preparation
-- Only a preparation that has reserved nothing has seen all that was published.
UPDATE onward_handler
SET wake_at = :now + CAST(:wake_in AS BIGINT),
    seen = CASE WHEN CAST(:seen AS BIGINT) > seen THEN CAST(:seen AS BIGINT) ELSE seen END,
    updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key;

-- name: cause_run
-- A run is caused by what has caused the events that it reserves.
INSERT INTO onward_cause (namespace, kind, target, input)
SELECT DISTINCT c.namespace, 'run', CAST(:run AS TEXT), c.input FROM json_each(:events) u
CROSS JOIN onward_cause c ON c.namespace = :namespace AND c.kind = 'event' AND c.target = u.value
WHERE true
ON CONFLICT DO NOTHING;

-- name: end_deliveries
UPDATE onward_delivery INDEXED BY onward_delivery_reserved
SET state = :state, reason = :reason, updated_at = :now
WHERE namespace = :namespace AND run = :run AND state = 'reserved'
RETURNING topic, event;

-- name: count_ended
UPDATE onward_subscription
SET consumed = consumed + CAST(:consumed AS BIGINT), skipped = skipped + CAST(:skipped AS BIGINT)
WHERE namespace = :namespace AND topic = :topic AND handler = :handler;

-- name: inputs_of_events
SELECT c.input FROM json_each(:events) u
CROSS JOIN onward_cause c ON c.namespace = :namespace AND c.kind = 'event' AND c.target = u.value
WHERE true;

-- name: complete_handler
-- A run of it has succeeded, and may have saved a state.
UPDATE onward_handler
SET state = CASE WHEN CAST(:saves AS BIGINT) = 1 THEN :state ELSE state END,
    state_version = state_version + CAST(:saves AS BIGINT),
    saved_by = CASE WHEN CAST(:saves AS BIGINT) = 1 THEN CAST(:run AS TEXT) ELSE saved_by END,
    failures = 0, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key;

-- name: raise_handler
-- It has work.
UPDATE onward_handler SET published = published + CAST(:count AS BIGINT), updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND key = :key;
