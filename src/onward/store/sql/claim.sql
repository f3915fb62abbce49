-- What a worker asks beside its claims.

-- name: next_due
SELECT (SELECT due FROM onward_run
        WHERE namespace = :namespace AND state = 'waiting' AND due > :since
        ORDER BY due LIMIT 1);

-- name: marks_waiting
SELECT count(*) FROM (SELECT 1 FROM onward_mark WHERE namespace = :namespace LIMIT 1) m;
