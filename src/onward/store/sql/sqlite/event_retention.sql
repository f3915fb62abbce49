-- Deleting events and inputs, many in one statement.

-- name: delete_deliveries_of
DELETE FROM onward_delivery
WHERE namespace = :namespace AND event IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_event_causes
DELETE FROM onward_cause
WHERE namespace = :namespace AND kind = 'event' AND target IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_run_causes
DELETE FROM onward_cause
WHERE namespace = :namespace AND kind = 'run' AND target IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_events
DELETE FROM onward_event
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_inputs
DELETE FROM onward_input
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
RETURNING 1;
