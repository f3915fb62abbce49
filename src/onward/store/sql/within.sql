-- What callers ask in transactions of their own, beside the inserts of start.sql. It locks nothing.

-- name: target_state
SELECT state FROM onward_run WHERE namespace = :namespace AND uid = :target
UNION ALL
SELECT state FROM onward_run WHERE namespace = :namespace AND id = :target AND newest = 1
LIMIT 1;
