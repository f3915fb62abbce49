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

-- name: begun_runs
-- Open runs that a worker has claimed, or that began with the history of another; newest first.
SELECT uid FROM onward_run INDEXED BY onward_run_ready
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL AND (fence > 0 OR follows IS NOT NULL)
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
UNION ALL
SELECT uid FROM onward_run INDEXED BY onward_run_flow
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL AND (fence > 0 OR follows IS NOT NULL)
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
UNION ALL
SELECT uid FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting' AND (fence > 0 OR follows IS NOT NULL)
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
UNION ALL
SELECT uid FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running' AND (fence > 0 OR follows IS NOT NULL)
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
UNION ALL
SELECT uid FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused' AND (fence > 0 OR follows IS NOT NULL)
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
ORDER BY uid DESC LIMIT :limit;

-- name: open_runs
-- Open runs as their next claim would return them.
SELECT r.uid, r.id, r.kind, r.name, r.version, r.queue, r.fence + 1 AS fence, r.inbox, r.seq, r.crashes,
       r.deadline, r.parent, r.parent_identity, r.root, r.cancel_with_parent, r.follows, r.link, r.attempt,
       r.origin, r.handler, r.handler_key, r.phase, r.scheduled_at, r.created_at, r.started_at, r.priority,
       r.tags, r.held_by, d.input, d.args_hash, d.trace, d.retry, d.attributes, d.beginning
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE r.state IN ('ready', 'running', 'waiting', 'paused')
ORDER BY r.uid DESC;

-- name: recorded_times
-- When closed records were written, of calls given as two lists.
SELECT h.run, h.identity, h.attempt, h.closed_at
FROM json_each(:runs) r JOIN json_each(:identities) i ON i.key = r.key
CROSS JOIN onward_record h
    ON h.namespace = :namespace AND h.run = r.value AND h.identity = i.value
WHERE h.closed_at IS NOT NULL;

-- name: runs_gone
-- Runs that were deleted, by their uids: those with a tombstone, and old ones that are not there. A run
-- that is started in a caller's transaction is not there either until the caller commits.
SELECT j.value FROM json_each(:uids) j
LEFT JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
LEFT JOIN onward_tombstone t ON t.namespace = :namespace AND t.uid = j.value
WHERE r.uid IS NULL AND (t.uid IS NOT NULL OR j.value < :below);

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
