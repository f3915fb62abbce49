-- Claiming runs that have a flow key, on SQLite: key by key, as many as its limit leaves room for.

-- name: keys_of_queue
-- The keys of what is ready in a queue, one step down the index each, and how many of each may run.
WITH RECURSIVE flow (key) AS (
    SELECT min(flow_key) FROM onward_run
    WHERE namespace = :namespace AND queue = :queue AND state = 'ready' AND flow_key IS NOT NULL
    UNION ALL
    SELECT (SELECT min(r.flow_key) FROM onward_run r
            WHERE r.namespace = :namespace AND r.queue = :queue AND r.state = 'ready'
              AND r.flow_key IS NOT NULL AND r.flow_key > flow.key)
    FROM flow WHERE flow.key IS NOT NULL
)
SELECT key, (SELECT l.max_running FROM onward_limit l
             WHERE l.namespace = :namespace AND l.key = flow.key)
FROM flow WHERE key IS NOT NULL;

-- name: count_running
SELECT count(*) FROM onward_run INDEXED BY onward_run_flowing
WHERE namespace = :namespace AND flow_key = :key AND state = 'running';

-- name: candidates_of_key
SELECT uid, priority, due FROM onward_run
WHERE namespace = :namespace AND state = 'ready' AND queue = :queue AND flow_key = :key
  AND crashes < :suspect_at
  AND {offered}
ORDER BY priority DESC, due
LIMIT :room;

-- name: limited_suspects
SELECT uid, priority, due, flow_key, crashes FROM onward_run INDEXED BY onward_run_suspect
WHERE namespace = :namespace AND crashes > 0 AND state IN ('ready', 'running', 'waiting')
  AND crashes >= :suspect_at
  AND state = 'ready' AND flow_key IS NOT NULL
  AND queue IN (SELECT value FROM json_each(:queues))
  AND {offered};
