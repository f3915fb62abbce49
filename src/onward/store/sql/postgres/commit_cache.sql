-- Parts of `commit`: results that other runs may use.

-- part: cached
-- In the order of the keys, so that two workers that cache the same results do not wait in a circle.
cached AS (
    INSERT INTO onward_cache (namespace, key, step, version, run, payload, created_at, expires_at)
    SELECT :namespace::text, c.key, c.step, c.version, c.run, c.payload, :now, :now + c.length
    FROM unnest(
        :k_key::text[], :k_step::text[], :k_version::text[], :k_payload::bytea[],
        :k_length::bigint[], :k_run::text[])
    AS c (key, step, version, payload, length, run)
    JOIN own o ON o.uid = c.run
    ORDER BY c.key
    ON CONFLICT (namespace, key) DO UPDATE
    SET step = excluded.step, version = excluded.version, run = excluded.run,
        payload = excluded.payload, created_at = excluded.created_at,
        expires_at = excluded.expires_at
)
