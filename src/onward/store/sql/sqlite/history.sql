-- Reads for many runs at once: the list is a JSON array. CROSS JOIN keeps it on the outside.

-- name: history
SELECT h.run, h.identity, h.attempt, h.seq, h.kind, h.name, h.state, h.args_hash, h.version,
       h.due, h.message, h.payload, h.error, h.opened_at, h.closed_at
FROM json_each(:uids) j
CROSS JOIN onward_record h ON h.namespace = :namespace AND h.run = j.value
ORDER BY h.run, h.seq IS NULL, h.seq, h.opened_at, h.identity, h.attempt;

-- name: recorded_times
-- When closed records were written, of calls given as two lists.
SELECT h.run, h.identity, h.attempt, h.closed_at
FROM json_each(:runs) r JOIN json_each(:identities) i ON i.key = r.key
CROSS JOIN onward_record h
    ON h.namespace = :namespace AND h.run = r.value AND h.identity = i.value
WHERE h.closed_at IS NOT NULL;

-- name: look
-- Messages after the ones that are known. The payloads of signals and ends of children are left out
-- once they add up to the budget: their sizes are added first, for a window keeps whole rows.
SELECT i.run, i.seq, i.message, i.kind, i.name,
       CASE WHEN t.is_omitted = 0 THEN i.payload END AS payload, i.sent_at, t.is_omitted
FROM (SELECT h.run, h.seq, h.kind IN ('signal', 'child') AND h.payload IS NOT NULL
             AND sum(length(h.payload)) OVER (ORDER BY h.run, h.seq) > :budget AS is_omitted
      FROM json_each(:after) j
      CROSS JOIN onward_inbox h
        ON h.namespace = :namespace AND h.run = j.key AND h.seq > j.value) t
CROSS JOIN onward_inbox i ON i.namespace = :namespace AND i.run = t.run AND i.seq = t.seq
ORDER BY i.run, i.seq;

-- name: run_ends
SELECT r.uid, r.state, r.reason, d.input, d.args_hash, d.result, d.error, r.id, d.failed_call,
       d.progress, d.attributes,
       (SELECT f.uid FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1) AS follower,
       (SELECT f.link FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1)
       AS follower_link
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out', 'paused');

-- name: all_notes
SELECT h.run, 1 AS noted, h.payload
FROM json_each(:uids) j
CROSS JOIN onward_record h ON h.namespace = :namespace AND h.run = j.value
WHERE h.kind = 'note'
UNION ALL
SELECT d.uid, 0, d.attributes
FROM json_each(:uids) j
CROSS JOIN onward_run_data d ON d.namespace = :namespace AND d.uid = j.value
WHERE d.attributes IS NOT NULL;
