-- What callers ask in transactions of their own, beside the inserts of start.sql. It locks nothing.

-- name: target_state
SELECT id, state, 1 AS rank FROM onward_run
WHERE namespace = :namespace AND id = :target AND newest = 1
UNION ALL
SELECT id, state, 2 AS rank FROM onward_run WHERE namespace = :namespace AND uid = :target
ORDER BY rank LIMIT 1;
