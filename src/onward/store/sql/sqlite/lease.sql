-- name: renew_leases(worker, length)
-- See `renew_lease`.
UPDATE onward_lease AS l
SET renewed_at = :now, length = :length, steady_since = CASE
    WHEN l.renewed_at <= :now AND (:now - l.renewed_at) * :gaps <= l.length THEN l.steady_since
    ELSE :now END
WHERE l.namespace = :namespace AND l.worker = :worker
RETURNING worker, renewed_at + length;

-- name: draining_workers
SELECT worker FROM onward_worker
WHERE namespace = :namespace AND draining = 1 AND worker IN (SELECT value FROM json_each(:workers));
