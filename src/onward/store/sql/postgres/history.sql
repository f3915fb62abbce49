-- Reads for many runs at once: the list is an array.

-- name: history
SELECT run, identity, attempt, seq, kind, name, state, args_hash, version, due, message, payload,
       error, opened_at, closed_at
FROM onward_record
WHERE namespace = :namespace AND run = ANY(:uids::text[])
ORDER BY run, seq IS NULL, seq, opened_at, identity, attempt;

-- name: look
SELECT run, seq, message, kind, name, payload, sent_at
FROM onward_inbox
WHERE namespace = :namespace AND run = ANY(:uids::text[])
ORDER BY run, seq;

-- name: run_ends
SELECT r.uid, r.state, r.reason, d.input, d.args_hash, d.result, d.error
FROM unnest(:uids::text[]) j (uid)
JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.uid
JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'paused');
