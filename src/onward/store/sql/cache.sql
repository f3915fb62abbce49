-- The result cache: lookups by workers, lists and purges by operators.

-- name: cached_result
SELECT payload FROM onward_cache WHERE namespace = :namespace AND key = :key AND expires_at > :now;

-- name: list_cache
SELECT c.key, c.step, c.version,
       (SELECT r.id FROM onward_run r WHERE r.namespace = c.namespace AND r.uid = c.run) AS run,
       length(c.payload) AS size, c.created_at, c.expires_at
FROM onward_cache c
WHERE c.namespace = :namespace AND c.key > :after AND c.expires_at > :now
  AND (CAST(:step AS TEXT) IS NULL OR c.step = CAST(:step AS TEXT))
  AND (CAST(:version AS TEXT) IS NULL OR c.version = CAST(:version AS TEXT))
ORDER BY c.key LIMIT :limit;

-- name: purge_cache
DELETE FROM onward_cache WHERE namespace = :namespace AND key IN (
    SELECT c.key FROM onward_cache c
    WHERE c.namespace = :namespace
      AND (CAST(:key AS TEXT) IS NULL OR c.key = CAST(:key AS TEXT))
      AND (CAST(:step AS TEXT) IS NULL OR c.step = CAST(:step AS TEXT))
      AND (CAST(:version AS TEXT) IS NULL OR c.version = CAST(:version AS TEXT))
    ORDER BY c.key LIMIT :limit)
RETURNING key;

-- name: purge_expired
DELETE FROM onward_cache WHERE namespace = :namespace AND key IN (
    SELECT c.key FROM onward_cache c
    WHERE c.namespace = :namespace AND c.expires_at <= :now ORDER BY c.expires_at LIMIT :limit)
RETURNING key;

-- name: has_expired_cache
SELECT 1 FROM onward_cache WHERE namespace = :namespace AND expires_at <= :now LIMIT 1;
