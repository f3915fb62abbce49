-- Namespaces and API keys of servers. These statements span namespaces: `:of` is the one they are about.

-- name: add_namespace
INSERT INTO onward_namespace (name, title, created_at) VALUES (:of, :title, :now)
ON CONFLICT (name) DO NOTHING
RETURNING name;

-- name: namespace_row
SELECT name, title, enabled, created_at FROM onward_namespace WHERE name = :of;

-- name: list_namespaces
SELECT name, title, enabled, created_at FROM onward_namespace
WHERE name > :after
ORDER BY name LIMIT :limit;

-- name: enable_namespace
UPDATE onward_namespace SET enabled = :enabled WHERE name = :of
RETURNING name, title, enabled, created_at;

-- name: lock_namespace
-- One server at a time creates the first key, or each would print one.
SELECT name FROM onward_namespace WHERE name = :of FOR UPDATE;

-- part: key_columns
k.id, k.namespace, k.name, k.scopes, k.created_at, k.created_by, k.expires_at, k.last_used_at,
       k.revoked_at

-- name: add_api_key
INSERT INTO onward_api_key (
    id, namespace, name, scopes, secret_hash, created_at, created_by, expires_at)
SELECT CAST(:id AS TEXT), n.name, CAST(:name AS TEXT), CAST(:scopes AS TEXT),
       CAST(:secret_hash AS TEXT), :now, CAST(:created_by AS TEXT),
       :now + CAST(:expires_in AS BIGINT)
FROM onward_namespace n WHERE n.name = :of
ON CONFLICT (id) DO NOTHING;

-- name: api_keys
SELECT {key_columns}, k.secret_hash, n.enabled, :now AS read_at
FROM onward_api_key k
JOIN onward_namespace n ON n.name = k.namespace
WHERE k.id IN (SELECT value FROM json_each(:ids));

-- name: list_api_keys
SELECT {key_columns}
FROM onward_api_key k
WHERE (CAST(:of AS TEXT) IS NULL OR k.namespace = CAST(:of AS TEXT)) AND k.id > :after
ORDER BY k.id LIMIT :limit;

-- name: revoke_api_key
UPDATE onward_api_key SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: expire_api_key
UPDATE onward_api_key SET expires_at = :now + CAST(:within AS BIGINT)
WHERE id = :id AND (expires_at IS NULL OR expires_at > :now + CAST(:within AS BIGINT));

-- name: note_key_use
UPDATE onward_api_key SET last_used_at = :now
WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :now - CAST(:interval AS BIGINT));

-- name: has_api_keys
SELECT 1 FROM onward_api_key LIMIT 1;
