-- What callers ask in transactions of their own, beside the inserts of start.sql. It locks nothing.

-- name: target_state
-- A run that is followed stands for the newest of its id, as it does for messages.
SELECT id, state, 1 AS rank FROM onward_run
WHERE namespace = :namespace AND id = :target AND newest = 1
UNION ALL
SELECT n.id, n.state, 2 AS rank FROM onward_run r
JOIN onward_run n ON n.namespace = r.namespace AND n.id = r.id AND n.newest = 1
WHERE r.namespace = :namespace AND r.uid = :target
ORDER BY rank LIMIT 1;
