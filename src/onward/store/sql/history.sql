-- Reads for many runs at once. Each run is looked up by itself.

-- name: history
-- Steps of the clock make a wait end later (clock_steps.sql), unless it ends at a certain time. The wait
-- after an attempt that failed began when that was over.
SELECT h.run, h.identity, h.attempt, h.seq, h.kind, h.name, h.state, h.args_hash, h.version,
       CASE WHEN h.due IS NULL OR h.seq IS NOT NULL OR h.name = 'sleep_until' THEN h.due
            ELSE h.due + (SELECT CAST(coalesce(sum(s.step), 0) AS BIGINT) FROM onward_clock_step s
                          WHERE s.namespace = :namespace AND s.began_by >= coalesce(h.closed_at, h.opened_at)) END AS due,
       h.message, h.payload, h.error, h.opened_at, h.closed_at, h.args
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

-- name: notes
SELECT payload FROM onward_record
WHERE namespace = :namespace AND run = :uid AND kind = 'note';
