-- A worker's right to write. Everyone who writes for a worker looks at its row first.

-- name: take_lease
INSERT INTO onward_lease (namespace, worker, until)
VALUES (:namespace, :worker, :now + :length)
ON CONFLICT (namespace, worker) DO NOTHING
RETURNING until;

-- name: renew_lease
-- No row: somebody took over. Being past `until` alone is no loss.
UPDATE onward_lease SET until = :now + :length
WHERE namespace = :namespace AND worker = :worker
RETURNING until;

-- name: drop_lease
DELETE FROM onward_lease WHERE namespace = :namespace AND worker = :worker
RETURNING worker;

-- name: lease_here
SELECT until FROM onward_lease WHERE namespace = :namespace AND worker = :worker;

-- name: expire_leases
-- Whoever claims lives, however late it is.
DELETE FROM onward_lease WHERE namespace = :namespace AND until < :now AND worker <> :worker
RETURNING worker;

-- name: leases
SELECT worker, until FROM onward_lease WHERE namespace = :namespace ORDER BY worker;
