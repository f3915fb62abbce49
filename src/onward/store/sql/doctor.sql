-- What `onward doctor` looks for. None of it reads what is over.

-- name: leases_with_runs
-- Leases, with how many runs each worker has.
SELECT l.worker, l.renewed_at, l.length,
       (SELECT count(*) FROM onward_run r INDEXED BY onward_run_running
        WHERE r.namespace = l.namespace AND r.worker = l.worker AND r.state = 'running') AS running
FROM onward_lease l
WHERE l.namespace = :namespace
ORDER BY l.worker;

-- name: stale_outbox
SELECT (SELECT count(*) FROM onward_outbox WHERE namespace = :namespace AND created_at < :now - :age)
       + (SELECT count(*) FROM onward_unpublished
          WHERE namespace = :namespace AND created_at < :now - :age);

-- name: crashing_runs
SELECT id, crashes FROM onward_run INDEXED BY onward_run_suspect
WHERE namespace = :namespace AND crashes > 0 AND state IN ('ready', 'running', 'waiting')
ORDER BY crashes DESC, uid LIMIT :limit;

-- name: paused_runs
SELECT id FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused' AND reason = :reason
ORDER BY uid LIMIT :limit;

-- name: late_in_need
-- Runs that have been ready for long, of those that require the same of a worker.
SELECT {listed_columns} FROM onward_run INDEXED BY onward_run_needs
WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND {needed} AND due < :now - CAST(:age AS BIGINT)
ORDER BY due, uid LIMIT :limit;

-- name: pinned_versions
-- The versions that open runs are pinned to.
SELECT version FROM onward_run INDEXED BY onward_run_ready
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL AND version IS NOT NULL
UNION
SELECT version FROM onward_run INDEXED BY onward_run_flow
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL AND version IS NOT NULL
UNION
SELECT version FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting' AND version IS NOT NULL
UNION
SELECT version FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running' AND version IS NOT NULL
UNION
SELECT version FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused' AND version IS NOT NULL;
