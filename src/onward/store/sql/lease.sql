-- A worker's right to write. Every write for a worker checks its row first. core/lease.py has the rules
-- by which a lease may be deleted, and the values of `:gaps` and `:ahead`.

-- name: take_lease
INSERT INTO onward_lease (namespace, worker, renewed_at, length, steady_since)
VALUES (:namespace, :worker, :now, :length, :now)
ON CONFLICT (namespace, worker) DO NOTHING
RETURNING renewed_at + length;

-- name: renew_lease
-- No row: another worker took over. A lease that has merely expired can still be renewed.
UPDATE onward_lease
SET renewed_at = :now, length = :length, steady_since = CASE
    WHEN renewed_at <= :now AND (:now - renewed_at) * :gaps <= length THEN steady_since
    ELSE :now END
WHERE namespace = :namespace AND worker = :worker
RETURNING renewed_at + length;

-- name: drop_lease
DELETE FROM onward_lease WHERE namespace = :namespace AND worker = :worker
RETURNING worker;

-- name: lease_here
-- Locked until the transaction ends: no other worker can take it over, but it can be renewed.
SELECT renewed_at + length FROM onward_lease WHERE namespace = :namespace AND worker = :worker
FOR KEY SHARE;

-- name: leased_workers
-- Those of some workers that have their leases, locked in the order of the names.
SELECT l.worker FROM json_each(:workers) j
CROSS JOIN onward_lease l ON l.namespace = :namespace AND l.worker = j.value
WHERE true
FOR KEY SHARE;

-- name: clip_leases
-- Leases that were renewed by a clock which was ahead count from now.
UPDATE onward_lease SET renewed_at = :now, steady_since = :now
WHERE namespace = :namespace AND renewed_at > :now + :ahead AND worker <> :worker;

-- name: expire_leases
-- Only a worker that renewed its own lease without a gap may delete an expired one.
DELETE FROM onward_lease WHERE namespace = :namespace AND worker IN (
    SELECT l.worker FROM onward_lease l JOIN onward_lease me ON me.namespace = l.namespace
    WHERE l.namespace = :namespace AND me.worker = :worker AND l.worker <> :worker
      AND me.renewed_at <= :now AND (:now - me.renewed_at) * :gaps <= me.length
      AND :now - me.steady_since >= CASE WHEN me.length > l.length THEN me.length ELSE l.length END
      AND :now - l.renewed_at > CASE WHEN me.length > l.length THEN me.length ELSE l.length END)
RETURNING worker;

-- name: lease_of
SELECT renewed_at, renewed_at + length >= :now, length, :now FROM onward_lease
WHERE namespace = :namespace AND worker = :worker;

-- name: leases
SELECT worker, renewed_at, steady_since, length, :now FROM onward_lease
WHERE namespace = :namespace ORDER BY worker;
