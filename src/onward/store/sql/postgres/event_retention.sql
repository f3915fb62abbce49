-- Deleting events and inputs, many in one statement: they are found one by one (see retention.sql).

-- name: delete_deliveries_of
DELETE FROM onward_delivery WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_delivery WHERE namespace = :namespace AND event = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_event_causes
DELETE FROM onward_cause WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_cause WHERE namespace = :namespace AND kind = 'event' AND target = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_run_causes
DELETE FROM onward_cause WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_cause WHERE namespace = :namespace AND kind = 'run' AND target = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_events
DELETE FROM onward_event WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_event WHERE namespace = :namespace AND uid = u.uid
        OFFSET 0) h))
RETURNING 1;

-- name: delete_inputs
DELETE FROM onward_input WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM unnest(:uids::text[]) u (uid)
    CROSS JOIN LATERAL (
        SELECT ctid FROM onward_input WHERE namespace = :namespace AND uid = u.uid
        OFFSET 0) h))
RETURNING 1;
