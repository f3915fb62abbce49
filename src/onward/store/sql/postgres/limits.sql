-- Choosing runs that have a flow key, for a claim in the same transaction. It first locks the rows of
-- the limits and then counts: a statement sees what was committed before it began, so a count that
-- begins with the lock held sees every claim that was made under the limit.

-- name: limited_keys
-- The keys of what is ready in these queues, one step down the index each. Those that have a limit
-- and room are locked, unless another claim has locked them; those without a limit are returned as
-- they are.
WITH RECURSIVE flow AS (
    SELECT q.queue, k.key FROM unnest(:queues::text[]) q (queue), LATERAL (
        SELECT flow_key AS key FROM onward_run
        WHERE namespace = :namespace::text AND queue = q.queue AND state = 'ready'
          AND flow_key IS NOT NULL
        ORDER BY flow_key LIMIT 1) k
    UNION ALL
    SELECT f.queue, k.key FROM flow f, LATERAL (
        SELECT flow_key AS key FROM onward_run
        WHERE namespace = :namespace::text AND queue = f.queue AND state = 'ready'
          AND flow_key IS NOT NULL AND flow_key > f.key
        ORDER BY flow_key LIMIT 1) k
), seen AS MATERIALIZED (
    SELECT k.key, l.max_running, (
        SELECT count(*) FROM (
            SELECT 1 FROM onward_run
            WHERE namespace = :namespace::text AND flow_key = k.key AND state = 'running'
            LIMIT l.max_running) r) AS running
    FROM (SELECT DISTINCT key FROM flow) k LEFT JOIN LATERAL (
        SELECT max_running FROM onward_limit WHERE namespace = :namespace::text AND key = k.key
        LIMIT 1) l ON true
), held AS (
    SELECT s.key, l.max_running FROM (
        SELECT key FROM seen WHERE running < max_running ORDER BY key) s, LATERAL (
        SELECT max_running FROM onward_limit WHERE namespace = :namespace::text AND key = s.key
        LIMIT 1 FOR UPDATE SKIP LOCKED) l
)
SELECT key, max_running FROM held
UNION ALL
SELECT key, max_running FROM seen WHERE max_running IS NULL;

-- name: limited_candidates
-- Suspects are looked for among suspects, of which there are few: coalesce() rules out other indexes.
WITH room AS MATERIALIZED (
    SELECT k.key, least(:limit::bigint, k.max_running - (
        SELECT count(*) FROM onward_run
        WHERE namespace = :namespace::text AND flow_key = k.key AND state = 'running')) AS room
    FROM unnest(:keys::text[], :max_running::bigint[]) k (key, max_running)
), ready AS (
    SELECT r.uid, r.priority, r.due, k.key, k.room
    FROM room k, unnest(:queues::text[]) q (queue), LATERAL (
        SELECT uid, priority, due FROM onward_run
        WHERE namespace = :namespace::text AND state = 'ready' AND queue = q.queue
          AND flow_key = k.key AND crashes < :suspect_at::bigint AND {offered}
        ORDER BY priority DESC, due LIMIT greatest(0, k.room)
        FOR UPDATE SKIP LOCKED) r
), suspect AS (
    SELECT uid, priority, due, flow_key, crashes FROM onward_run
    WHERE namespace = :namespace::text AND crashes > 0
      AND state IN ('ready', 'running', 'waiting') AND state = 'ready'
      AND crashes >= :suspect_at::bigint
      AND coalesce(flow_key, '') = ANY (ARRAY(SELECT key FROM room WHERE room > 0))
      AND queue = ANY(:queues::text[]) AND {offered}
    ORDER BY priority DESC, due LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
)
SELECT uid, priority, due, key, 0 AS crashes, room FROM ready
UNION ALL
SELECT s.uid, s.priority, s.due, k.key, s.crashes, k.room
FROM suspect s JOIN room k ON k.key = s.flow_key;
