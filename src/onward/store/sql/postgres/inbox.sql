-- Reading inboxes on Postgres.

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
