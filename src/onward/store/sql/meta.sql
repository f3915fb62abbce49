-- What the database knows about itself.

-- name: schema
SELECT value FROM onward_meta WHERE name = 'schema';

-- name: set_schema(number)
INSERT INTO onward_meta AS m (name, value) VALUES ('schema', :number)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: take_identity
-- A number by which processes find each other that use this database, whatever they call it.
INSERT INTO onward_meta (name, value) VALUES ('identity', :identity) ON CONFLICT DO NOTHING;

-- name: identity
SELECT value FROM onward_meta WHERE name = 'identity';
