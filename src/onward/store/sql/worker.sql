-- What operators see of workers.

-- name: register_worker
INSERT INTO onward_worker (
    namespace, worker, host, pid, version, queues, tags, names, started_at)
VALUES (:namespace, :worker, :host, :pid, :version, :queues, :tags, :names, :now)
ON CONFLICT (namespace, worker) DO UPDATE SET left_at = NULL;

-- name: unregister_worker
UPDATE onward_worker SET left_at = :now WHERE namespace = :namespace AND worker = :worker;

-- name: live_workers
SELECT w.queues, w.names, w.version, w.tags FROM onward_lease l
JOIN onward_worker w ON w.namespace = l.namespace AND w.worker = l.worker
WHERE l.namespace = :namespace AND l.renewed_at + l.length >= :now AND w.draining = 0;

-- name: live_queues
SELECT w.queues FROM onward_lease l
JOIN onward_worker w ON w.namespace = l.namespace AND w.worker = l.worker
WHERE l.namespace = :namespace AND l.renewed_at + l.length >= :now;
