-- Choosing runs under flow control, on SQLite.

-- name: lanes_of_level
-- The keys and workflows of what is ready in a queue with one priority, one step down the index each, and
-- the rank of the first run of each. Two searches, because for a comparison of two columns SQLite would read all runs of the lane before.
WITH RECURSIVE lane (key, name, place, first) AS (
    SELECT :key, :name, 0, 0
    UNION ALL
    SELECT r.flow_key, r.name, lane.place + 1, {rank}
    FROM lane CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = coalesce(
        (SELECT n.uid FROM onward_run n INDEXED BY onward_run_flow
         WHERE n.namespace = :namespace AND n.queue = :queue AND n.priority = :priority
           AND n.state = 'ready' AND n.flow_key IS NOT NULL
           AND n.flow_key = lane.key AND n.name > lane.name
         ORDER BY n.name, {rank} LIMIT 1),
        (SELECT n.uid FROM onward_run n INDEXED BY onward_run_flow
         WHERE n.namespace = :namespace AND n.queue = :queue AND n.priority = :priority
           AND n.state = 'ready' AND n.flow_key IS NOT NULL AND n.flow_key > lane.key
         ORDER BY n.flow_key, n.name, {rank} LIMIT 1))
    WHERE lane.place < :limit
)
SELECT key, name, key < :until, first FROM lane WHERE place > 0;

-- name: runs_of_lane
SELECT uid, priority, due, queue, name, flow_key, {rank}, crashes
FROM onward_run INDEXED BY onward_run_flow
WHERE namespace = :namespace AND state = 'ready' AND queue = :queue AND priority = :priority
  AND flow_key = :key AND flow_key IS NOT NULL AND name = :name
  AND {rank} <= :rank AND crashes < :suspect_at
  AND {offered}
ORDER BY {rank}, due
LIMIT :limit;
