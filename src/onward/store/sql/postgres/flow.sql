-- Choosing runs under flow control, on Postgres, for a claim in the same transaction. That has locked
-- the rows of the limits before: a statement sees what was committed before it began, so a count that
-- begins with the locks held sees every claim that was made under the limits.

-- name: lanes_of_level
-- The keys and workflows of what is ready in a queue with one priority, one step down the index each, and
-- the rank of the first run of each.
WITH RECURSIVE lane (key, name, place, first) AS (
    SELECT :key::text COLLATE "C", :name::text COLLATE "C", 0, 0
    UNION ALL
    SELECT n.flow_key, n.name, l.place + 1, n.rank FROM lane l, LATERAL (
        SELECT flow_key, name, {rank} AS rank FROM onward_run
        WHERE namespace = :namespace::text AND queue = :queue::text
          AND priority = :priority::bigint AND state = 'ready' AND flow_key IS NOT NULL
          AND (flow_key, name) > (l.key, l.name)
        ORDER BY flow_key, name, {rank} LIMIT 1) n
    WHERE l.place < :limit::bigint
)
SELECT key, name, key < :until::text, first FROM lane WHERE place > 0 ORDER BY place;

-- name: runs_of_lanes
SELECT r.uid, :priority::bigint, r.due, :queue::text, l.name, l.key, r.rank, r.crashes
FROM unnest(:lane_keys::text[], :lane_names::text[], :lane_ranks::bigint[], :lane_limits::bigint[])
     l (key, name, rank, maximum),
LATERAL (
    SELECT uid, due, {rank} AS rank, crashes FROM onward_run
    WHERE namespace = :namespace::text AND state = 'ready' AND queue = :queue::text
      AND priority = :priority::bigint AND flow_key = l.key AND flow_key IS NOT NULL
      AND name = l.name AND {rank} <= l.rank AND crashes < :suspect_at::bigint AND {offered}
    ORDER BY {rank}, due LIMIT l.maximum) r;

-- name: runs_to_control
-- The first ready and due runs that should be under flow control.
SELECT r.uid FROM unnest(:queues::text[]) q (queue), LATERAL (
    SELECT uid, name FROM onward_run
    WHERE namespace = :namespace::text AND state = 'ready' AND flow_key IS NULL AND queue = q.queue
    ORDER BY priority DESC, {rank}, due LIMIT :limit::bigint) r
WHERE q.queue = ANY(:limited_queues::text[]) OR r.name = ANY(:limited_names::text[])
UNION ALL
SELECT uid FROM (
    SELECT uid, name, queue FROM onward_run
    WHERE namespace = :namespace::text AND state = 'waiting' AND due <= :now AND flow_key IS NULL
    ORDER BY due LIMIT :limit::bigint) d
WHERE queue = ANY(:limited_queues::text[]) OR name = ANY(:limited_names::text[]);
