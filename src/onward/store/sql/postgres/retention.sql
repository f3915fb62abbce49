-- Deleting rows of many runs in one statement. They are found run by run, by their index, and then deleted by their
-- place: a plan for `run = ANY` that is made while tables are empty may read a whole table.

-- name: lock_ended
-- A run that is being retried or forked at this moment is left out, with its family.
SELECT r.uid FROM unnest(:uids::text[]) u (uid)
CROSS JOIN LATERAL (
    SELECT uid FROM onward_run WHERE namespace = :namespace AND uid = u.uid
    LIMIT 1 FOR UPDATE SKIP LOCKED) r;

-- name: lock_marked
SELECT t.uid FROM unnest(:uids::text[]) u (uid)
CROSS JOIN LATERAL (
    SELECT uid FROM onward_tombstone WHERE namespace = :namespace AND uid = u.uid AND is_deleted = 0
    LIMIT 1 FOR UPDATE SKIP LOCKED) t;

-- name: delete_records
DELETE FROM onward_record WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_record WHERE namespace = :namespace AND run = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_messages
DELETE FROM onward_inbox WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_inbox WHERE namespace = :namespace AND run = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_effects
DELETE FROM onward_effect WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_effect WHERE namespace = :namespace AND run = u.uid AND run IS NOT NULL
        OFFSET 0) h))
RETURNING 1;

-- name: delete_run_data
DELETE FROM onward_run_data WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_run_data WHERE namespace = :namespace AND uid = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_runs
DELETE FROM onward_run WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_run WHERE namespace = :namespace AND uid = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: keep_tombstones
UPDATE onward_tombstone SET is_deleted = 1
WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid, id, until, is_deleted FROM onward_tombstone
        WHERE namespace = :namespace AND uid = u.uid OFFSET 0) t
    WHERE id IS NOT NULL AND until > :now));

-- name: drop_tombstones
-- Those that reserve no id.
DELETE FROM onward_tombstone
WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid, id, until, is_deleted FROM onward_tombstone
        WHERE namespace = :namespace AND uid = u.uid OFFSET 0) t
    WHERE is_deleted = 0));

-- name: drop_expired
DELETE FROM onward_tombstone
WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid, id, until, is_deleted FROM onward_tombstone
        WHERE namespace = :namespace AND uid = u.uid OFFSET 0) t
    WHERE is_deleted = 1 AND until <= :now))
RETURNING 1;
