-- Replacing a run that has ended by a new one under the same id.

-- name: retire_run
-- Not `newest = 1`: for that a plan could choose the index on (namespace, id).
UPDATE onward_run SET newest = 0, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND newest <> 0
  AND state IN ('succeeded', 'failed', 'cancelled', 'timed_out')
RETURNING uid;
