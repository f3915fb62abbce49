-- Reads for many runs at once: the list is an array. Each run is looked up by itself (OFFSET 0 and
-- LIMIT keep the planner from mixing that with the list), for a plan that was made while tables were
-- empty would otherwise read the whole namespace and pick from that.

-- name: history
SELECT h.* FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
           payload, error, opened_at, closed_at
    FROM onward_record WHERE namespace = :namespace AND run = u.uid OFFSET 0) h
ORDER BY run, seq IS NULL, seq, opened_at, identity, attempt;

-- name: recorded_times
-- When closed records were written, of calls given as two lists.
SELECT h.* FROM unnest(:runs::text[], :identities::text[]) u (run, identity), LATERAL (
    SELECT run, identity, attempt, closed_at FROM onward_record
    WHERE namespace = :namespace AND run = u.run AND identity = u.identity
      AND closed_at IS NOT NULL OFFSET 0) h;

-- name: look
-- Messages after the ones that are known. The payloads of signals and ends of children are left out
-- once they add up to the budget; what is left out is not even read.
SELECT run, seq, message, kind, name, CASE WHEN NOT is_omitted THEN payload END AS payload, sent_at,
       is_omitted::int AS is_omitted
FROM (SELECT i.*, coalesce(kind IN ('signal', 'child') AND payload IS NOT NULL
             AND sum(octet_length(payload)) OVER (ORDER BY run, seq) > :budget::bigint, false)
             AS is_omitted
      FROM json_each_text(:after::json) u (uid, seen), LATERAL (
          SELECT run, seq, message, kind, name, payload, sent_at FROM onward_inbox
          WHERE namespace = :namespace AND run = u.uid AND seq > u.seen::bigint
          ORDER BY seq OFFSET 0) i) m  -- in the order of the primary key, so that no plan prefers another
ORDER BY run, seq;

-- name: run_ends
SELECT r.uid, r.state, r.reason, d.input, d.args_hash, d.result, d.error, r.id, d.failed_call,
       d.progress, d.attributes, f.uid AS follower, f.link AS follower_link
FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid, id, state, reason FROM onward_run
    WHERE namespace = :namespace AND uid = u.uid LIMIT 1) r
LEFT JOIN LATERAL (
    SELECT uid, link FROM onward_run
    WHERE namespace = :namespace AND follows = r.uid AND id = r.id LIMIT 1) f ON true
LEFT JOIN LATERAL (
    SELECT input, args_hash, result, error, failed_call, progress, attributes FROM onward_run_data
    WHERE namespace = :namespace AND uid = u.uid LIMIT 1) d ON true
WHERE r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'paused');

-- name: all_notes
SELECT h.* FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT run, 1 AS noted, payload FROM onward_record
    WHERE namespace = :namespace AND run = u.uid AND kind = 'note' OFFSET 0) h
UNION ALL
SELECT d.* FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid, 0, attributes FROM onward_run_data
    WHERE namespace = :namespace AND uid = u.uid AND attributes IS NOT NULL LIMIT 1) d;
