-- Schema version and identity of the database.

-- name: schema
SELECT value FROM onward_meta WHERE name = 'schema';

-- name: set_schema(number)
INSERT INTO onward_meta AS m (name, value) VALUES ('schema', :number)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: take_identity
-- A number that names this database in hints, whichever address a process uses for it.
INSERT INTO onward_meta (name, value) VALUES ('identity', :identity) ON CONFLICT DO NOTHING;

-- name: identity
SELECT value FROM onward_meta WHERE name = 'identity';
