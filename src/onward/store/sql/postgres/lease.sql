-- name: renew_leases
-- The leases of many workers in one round trip, locked in one order; see `renew_lease`.
WITH given AS (
    SELECT worker, length FROM unnest(:worker::text[], :length::bigint[]) g (worker, length)
), locked AS (
    SELECT l.worker, l.renewed_at, l.steady_since, l.length AS old_length, g.length
    FROM (SELECT worker COLLATE "C" AS worker, length FROM given ORDER BY worker) g, LATERAL (
        SELECT worker, renewed_at, steady_since, length FROM onward_lease
        WHERE namespace = :namespace::text AND worker = g.worker LIMIT 1 FOR NO KEY UPDATE) l
), renewed AS (
    -- An insert that always meets its row: see `moved` in commit_runs.sql.
    INSERT INTO onward_lease (namespace, worker, renewed_at, length, steady_since)
    SELECT :namespace::text, worker, :now, length, CASE
        WHEN renewed_at <= :now AND (:now - renewed_at) * :gaps::bigint <= old_length
        THEN steady_since ELSE :now END
    FROM locked
    ON CONFLICT (namespace, worker) DO UPDATE
    SET renewed_at = excluded.renewed_at, length = excluded.length,
        steady_since = excluded.steady_since
    RETURNING worker, renewed_at + length AS until
)
SELECT g.worker, r.until, coalesce(w.draining, 0)
FROM given g LEFT JOIN renewed r ON r.worker = g.worker LEFT JOIN LATERAL (
    SELECT draining FROM onward_worker
    WHERE namespace = :namespace::text AND worker = g.worker LIMIT 1) w ON true;
