-- The time of the file: the latest that was kept, and how often an operator has reset it. The rules
-- are in core/file_time.py.

-- name: read_time
SELECT t.value, r.value
FROM onward_meta t JOIN onward_meta r ON r.name = 'time_resets'
WHERE t.name = 'time';

-- name: keep_time
-- Not if it was reset: a process that has not noticed the reset still has a time that is ahead.
UPDATE onward_meta SET value = max(value, :now)
WHERE name = 'time'
  AND (SELECT value FROM onward_meta WHERE name = 'time_resets') = :resets;

-- name: reset_time
UPDATE onward_meta SET value = CASE name WHEN 'time' THEN :to ELSE value + 1 END
WHERE name IN ('time', 'time_resets');

-- name: shift_leases
-- Of all namespaces, as they share the file's time: each lease lasts as long as it would have.
UPDATE onward_lease SET renewed_at = renewed_at - :by, steady_since = steady_since - :by;
