-- The latest time this file has seen; see sqlite/highwater.py.

-- name: read_time
SELECT value FROM onward_meta WHERE name = 'time';

-- name: keep_time
UPDATE onward_meta SET value = max(value, :now) WHERE name = 'time';
