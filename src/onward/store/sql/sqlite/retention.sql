-- Deleting rows of many runs in one statement.

-- name: lock_ended
-- There is one writer.
SELECT r.uid FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value;

-- name: lock_marked
SELECT t.uid FROM json_each(:uids) j
CROSS JOIN onward_tombstone t ON t.namespace = :namespace AND t.uid = j.value AND t.is_deleted = 0;

-- name: delete_records
DELETE FROM onward_record
WHERE namespace = :namespace AND run IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_messages
DELETE FROM onward_inbox
WHERE namespace = :namespace AND run IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_effects
DELETE FROM onward_effect INDEXED BY onward_effect_run
WHERE namespace = :namespace AND run IN (SELECT value FROM json_each(:uids)) AND run IS NOT NULL
RETURNING 1;

-- name: delete_run_data
DELETE FROM onward_run_data
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: delete_runs
DELETE FROM onward_run
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
RETURNING 1;

-- name: keep_tombstones
-- `+` keeps SQLite from an index of all tombstones that reserve an id.
UPDATE onward_tombstone SET is_deleted = 1
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND +id IS NOT NULL AND until > :now;

-- name: drop_tombstones
-- Those that reserve no id.
DELETE FROM onward_tombstone
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND is_deleted = 0;

-- name: drop_expired
DELETE FROM onward_tombstone
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND +is_deleted = 1 AND until <= :now
RETURNING 1;
