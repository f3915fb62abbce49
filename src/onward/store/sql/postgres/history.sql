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
