-- Reads in callers' transactions, beside the inserts of start.sql. They lock nothing.

-- name: target_state
-- The uid of a run that is followed means the newest run of its id, as for messages.
SELECT id, state, 1 AS rank FROM onward_run
WHERE namespace = :namespace AND id = :target AND newest = 1
UNION ALL
SELECT n.id, n.state, 2 AS rank FROM onward_run r
JOIN onward_run n ON n.namespace = r.namespace AND n.id = r.id AND n.newest = 1
WHERE r.namespace = :namespace AND r.uid = :target
ORDER BY rank LIMIT 1;
