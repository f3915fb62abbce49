-- What workers and operators do to runs beside working on them.

-- name: disown
-- A run in the name of a worker that does not know it: if the worker wrote for it after all, it would
-- find itself lost.
UPDATE onward_run
SET state = 'ready', reason = NULL, due = :now, worker = NULL, fence = fence + 1, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'running' AND worker = :worker
  AND fence = :fence
RETURNING queue;

-- name: forgive_crash
-- A run that was adopted from a worker which turned out to be alive.
UPDATE onward_run SET crashes = crashes - 1
WHERE namespace = :namespace AND uid = :uid AND fence = :fence AND crashes > 0;

-- name: diverged_runs
-- Runs that code has parked, and which code it was.
SELECT uid, parked_by, queue, name, version, tags FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused' AND reason = 'divergence';

-- name: unpark_run
UPDATE onward_run SET state = 'ready', reason = NULL, due = :now, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'paused' AND reason = 'divergence'
  AND parked_by = :parked_by
RETURNING queue;

-- name: keep_progress
-- The last word may come when its owner has parked or ended the run already.
UPDATE onward_run_data SET progress = :value
WHERE namespace = :namespace AND uid = :uid AND EXISTS (
    SELECT 1 FROM onward_run r
    WHERE r.namespace = :namespace AND r.uid = :uid AND r.fence = :fence
      AND coalesce(r.worker, :worker) = :worker)
RETURNING uid;

-- name: limit_of
SELECT most FROM onward_flow WHERE namespace = :namespace AND key = :key;

-- name: set_limit
INSERT INTO onward_flow (namespace, key, most) VALUES (:namespace, :key, :most)
ON CONFLICT (namespace, key) DO UPDATE SET most = excluded.most;
