-- Putting a new run in the place of one that is over, under its id.

-- name: retire_run
-- Not `newest = 1`, for which a plan could choose the index of those, which begins with the id.
UPDATE onward_run SET newest = 0, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND newest <> 0
  AND state IN ('succeeded', 'failed', 'cancelled', 'timed_out')
RETURNING uid;
