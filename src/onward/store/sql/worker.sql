-- What operators see of workers, and the key that each has joined with.

-- name: register_worker
INSERT INTO onward_worker (
    namespace, worker, host, pid, version, queues, tags, names, schedules, slots, key_id, started_at)
VALUES (:namespace, :worker, :host, :pid, :version, :queues, :tags, :names, :schedules, :slots, :key_id,
    :now)
ON CONFLICT (namespace, worker) DO UPDATE SET left_at = NULL, names = excluded.names
WHERE onward_worker.key_id = excluded.key_id
RETURNING worker;

-- name: key_of_worker
SELECT key_id FROM onward_worker WHERE namespace = :namespace AND worker = :worker;

-- name: unregister_worker
UPDATE onward_worker SET left_at = :now WHERE namespace = :namespace AND worker = :worker;

-- name: list_workers
-- Workers that have not left, newest first, with their leases and how many runs they have; with `gone`,
-- also those that have left.
SELECT w.worker, w.host, w.pid, w.version, w.queues, w.tags, w.names, w.slots, w.draining,
       w.started_at, w.left_at, l.renewed_at,
       CASE WHEN l.renewed_at + l.length >= :now THEN 1 ELSE 0 END AS is_alive,
       (SELECT count(*) FROM onward_run r INDEXED BY onward_run_running
        WHERE r.namespace = w.namespace AND r.worker = w.worker AND r.state = 'running') AS running
FROM onward_worker w
LEFT JOIN onward_lease l ON l.namespace = w.namespace AND l.worker = w.worker
WHERE w.namespace = :namespace AND (w.left_at IS NULL OR CAST(:gone AS BIGINT) = 1)
ORDER BY w.started_at DESC, w.worker;

-- name: drain_worker
UPDATE onward_worker SET draining = 1
WHERE namespace = :namespace AND worker = :worker AND left_at IS NULL
RETURNING worker;

-- name: workers_to_drain
SELECT worker FROM onward_worker
WHERE namespace = :namespace AND draining = 1 AND left_at IS NULL;

-- name: take_over_drain
-- An order to drain a worker holds for the one that takes its place, under a new id.
UPDATE onward_worker SET draining = 1
WHERE namespace = :namespace AND worker = :worker AND EXISTS (
    SELECT 1 FROM onward_worker b
    WHERE b.namespace = :namespace AND b.worker = :before AND b.draining = 1)
RETURNING worker;

-- name: live_workers
SELECT w.queues, w.names, w.version, w.tags, w.worker FROM onward_lease l
JOIN onward_worker w ON w.namespace = l.namespace AND w.worker = l.worker
WHERE l.namespace = :namespace AND l.renewed_at + l.length >= :now AND w.draining = 0;

-- name: live_queues
SELECT w.queues FROM onward_lease l
JOIN onward_worker w ON w.namespace = l.namespace AND w.worker = l.worker
WHERE l.namespace = :namespace AND l.renewed_at + l.length >= :now;

-- name: declared_schedules
-- What the code of each live worker declares.
SELECT w.schedules FROM onward_lease l
JOIN onward_worker w ON w.namespace = l.namespace AND w.worker = l.worker
WHERE l.namespace = :namespace AND l.renewed_at + l.length >= :now;

-- name: gone_workers
-- Workers without a lease and without runs: those that died, and those that left long ago.
SELECT worker FROM onward_worker w
WHERE namespace = :namespace AND (left_at IS NULL OR left_at < :now - :kept)
  AND NOT EXISTS (SELECT 1 FROM onward_lease l
                  WHERE l.namespace = w.namespace AND l.worker = w.worker)
  AND NOT EXISTS (SELECT 1 FROM onward_run r INDEXED BY onward_run_running
                  WHERE r.namespace = w.namespace AND r.worker = w.worker AND r.state = 'running')
ORDER BY worker LIMIT :limit;

-- name: mark_worker_gone
-- A worker that died leaves no time of its end, so its row is kept from now on.
UPDATE onward_worker SET left_at = :now
WHERE namespace = :namespace AND worker = :worker AND left_at IS NULL AND NOT EXISTS (
    SELECT 1 FROM onward_lease l WHERE l.namespace = :namespace AND l.worker = :worker);

-- name: remove_worker
DELETE FROM onward_worker
WHERE namespace = :namespace AND worker = :worker AND left_at < :now - :kept AND NOT EXISTS (
    SELECT 1 FROM onward_lease l WHERE l.namespace = :namespace AND l.worker = :worker)
RETURNING worker;

-- name: owned_parents
-- Those of some runs that are assigned to a worker, with what their ends are reported to.
SELECT r.uid, r.fence, r.parent, r.parent_identity
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
WHERE r.state = 'running' AND r.worker = :worker;
