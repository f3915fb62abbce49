-- Putting a new run in the place of one that is over, under its id.

-- name: retire_run
UPDATE onward_run SET newest = 0, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND newest = 1
  AND state IN ('succeeded', 'failed', 'cancelled', 'timed_out')
RETURNING uid;
