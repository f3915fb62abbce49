-- What the database knows about itself.

-- name: schema
SELECT value FROM onward_meta WHERE name = 'schema';

-- name: set_schema(number)
INSERT INTO onward_meta AS m (name, value) VALUES ('schema', :number)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
