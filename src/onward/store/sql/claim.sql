-- What a worker asks beside its claims.

-- name: next_due
SELECT min(due) FROM onward_run WHERE namespace = :namespace AND state = 'waiting';

-- name: marks_waiting
SELECT count(*) FROM (SELECT 1 FROM onward_mark WHERE namespace = :namespace LIMIT 1) m;
