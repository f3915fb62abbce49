-- Flow control: what limits the runs of queues, workflows and keys, and the rates of effects.

-- part: flow_columns
kind, scope, name, declared_max, operator_max, declared_count, declared_period, operator_count,
operator_period, declared_hold, operator_hold, weight, paused, starts, next_at, turns

-- part: rank
CASE WHEN fence > 0 THEN 0 WHEN parent IS NOT NULL THEN 1 ELSE 2 END

-- part: restricts
kind IN ('queue', 'workflow') AND (
    paused = 1 OR declared_max IS NOT NULL OR operator_max IS NOT NULL
    OR declared_count IS NOT NULL OR operator_count IS NOT NULL)

-- part: is_set
kind = 'key' AND (
    weight <> 1 OR declared_max IS NOT NULL OR operator_max IS NOT NULL
    OR declared_count IS NOT NULL OR operator_count IS NOT NULL
    OR declared_hold IS NOT NULL OR operator_hold IS NOT NULL OR paused = 1)

-- name: add_flow
INSERT INTO onward_flow (namespace, kind, scope, name, updated_at)
VALUES (:namespace, :kind, :scope, :name, :now)
ON CONFLICT (namespace, kind, scope, name) DO NOTHING;

-- name: flow_of
SELECT {flow_columns} FROM onward_flow
WHERE namespace = :namespace AND kind = :kind AND scope = :scope AND name = :name
FOR UPDATE;

-- name: lock_queues
SELECT name FROM onward_flow WHERE namespace = :namespace AND kind = 'queue' ORDER BY name FOR UPDATE;

-- name: flows_of
SELECT {flow_columns} FROM onward_flow
WHERE namespace = :namespace AND kind = :kind AND scope = :scope
  AND name IN (SELECT value FROM json_each(:names));

-- name: all_flows
SELECT {flow_columns} FROM onward_flow
WHERE namespace = :namespace AND kind IN ('queue', 'workflow')
UNION ALL
SELECT {flow_columns} FROM onward_flow
WHERE namespace = :namespace AND kind = 'key' AND (
    weight <> 1 OR declared_max IS NOT NULL OR operator_max IS NOT NULL
    OR declared_count IS NOT NULL OR operator_count IS NOT NULL)
ORDER BY 1, 2, 3;

-- name: set_flow
INSERT INTO onward_flow AS f (
    namespace, kind, scope, name, declared_max, operator_max, declared_count, declared_period,
    operator_count, operator_period, declared_hold, operator_hold, weight, paused, updated_at)
VALUES (:namespace, :kind, :scope, :name, :declared_max, :operator_max, :declared_count,
        :declared_period, :operator_count, :operator_period, :declared_hold, :operator_hold,
        :weight, :paused, :now)
ON CONFLICT (namespace, kind, scope, name) DO UPDATE
SET declared_max = excluded.declared_max, operator_max = excluded.operator_max,
    declared_count = excluded.declared_count, declared_period = excluded.declared_period,
    operator_count = excluded.operator_count, operator_period = excluded.operator_period,
    declared_hold = excluded.declared_hold, operator_hold = excluded.operator_hold,
    weight = excluded.weight, paused = excluded.paused, forget_at = NULL,
    updated_at = excluded.updated_at;

-- name: flows_to_claim
-- Locked until the transaction ends, in one order: claims that count the same runs follow each other.
SELECT {flow_columns}, :now FROM onward_flow
WHERE namespace = :namespace AND kind = :kind AND scope = ''
  AND name IN (SELECT value FROM json_each(:names))
ORDER BY name
FOR UPDATE;

-- name: note_claims(kind, scope, name, starts, next_at, turns, forget_at)
INSERT INTO onward_flow AS f (
    namespace, kind, scope, name, starts, next_at, turns, forget_at, updated_at)
VALUES (:namespace, :kind, :scope, :name, :starts, :next_at, :turns, :forget_at, :now)
ON CONFLICT (namespace, kind, scope, name) DO UPDATE
SET starts = excluded.starts, next_at = excluded.next_at, turns = excluded.turns,
    forget_at = excluded.forget_at, updated_at = excluded.updated_at;

-- name: has_idle_keys
SELECT 1 FROM onward_flow INDEXED BY onward_flow_forget
WHERE namespace = :namespace AND forget_at IS NOT NULL AND forget_at <= :now LIMIT 1;

-- name: delete_idle_keys
-- Of keys for which nothing is set, and whose starts count no more.
DELETE FROM onward_flow
WHERE namespace = :namespace AND kind = 'key' AND forget_at IS NOT NULL AND forget_at <= :now
  AND (scope, name) IN (
    SELECT i.scope, i.name FROM onward_flow i INDEXED BY onward_flow_forget
    WHERE i.namespace = :namespace AND i.forget_at IS NOT NULL AND i.forget_at <= :now
    ORDER BY i.forget_at LIMIT CAST(:limit AS BIGINT))
RETURNING name;

-- name: take_turn
-- Each caller is given a time of its own, one interval after the previous one. If a clock that was
-- ahead wrote the row, as many intervals are still to come as were then.
INSERT INTO onward_flow AS l (namespace, kind, name, next_at, updated_at)
VALUES (:namespace, 'effect', :name, :now + :interval, :now)
ON CONFLICT (namespace, kind, scope, name) DO UPDATE
SET next_at = CASE WHEN l.next_at IS NOT NULL AND l.updated_at > :now + :ahead
                   THEN l.next_at - l.updated_at + :now
                   WHEN l.next_at > :now THEN l.next_at ELSE :now END + :interval,
    updated_at = :now
RETURNING next_at - :interval - :now;

-- name: make_due_ready
-- Runs under flow control that are due become ready, so that all that could be claimed is in one
-- index, in order. An insert that always meets its row: see hold.sql.
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, due, created_at, updated_at)
SELECT CAST(:namespace AS TEXT), d.uid, '', 'workflow', '', '', 'ready', d.due, :now, :now
FROM (SELECT uid, due FROM onward_run
      WHERE namespace = :namespace AND state = 'waiting' AND flow_key IS NOT NULL AND due <= :now
        AND due <= CAST(:latest AS BIGINT)
      ORDER BY due LIMIT CAST(:limit AS BIGINT)
      FOR UPDATE SKIP LOCKED) d
WHERE true
ON CONFLICT (namespace, uid) DO UPDATE SET state = 'ready', updated_at = excluded.updated_at;

-- name: control_runs
-- Puts ready and due runs under flow control: their queue or their workflow is limited by now.
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, due, flow_key, created_at, updated_at)
SELECT l.namespace, l.uid, '', 'workflow', '', '', 'ready', l.due, '', :now, :now
FROM json_each(:uids) j
CROSS JOIN onward_run l ON l.namespace = :namespace AND l.uid = j.value
WHERE l.state IN ('ready', 'waiting') AND l.due <= :now
ON CONFLICT (namespace, uid) DO UPDATE
SET state = 'ready', flow_key = coalesce(r.flow_key, ''), updated_at = excluded.updated_at
WHERE r.state IN ('ready', 'waiting');

-- name: hold_begun
-- Runs that were claimed before a limit began to count waiting runs hold their places, too. This reads
-- all runs of a namespace, once for each limit that is set to hold="open".
UPDATE onward_run SET holds = 1
WHERE namespace = :namespace AND fence > 0 AND state IN ('ready', 'running', 'waiting', 'paused')
  AND CASE WHEN :kind = 'workflow' THEN name = :name
           WHEN :kind = 'queue' THEN queue = :name
           ELSE queue = :scope AND (flow_key = :name OR :name = '*' AND flow_key <> '') END;

-- name: count_running
SELECT queue, name, count(*) FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running'
GROUP BY queue, name;

-- name: count_running_keys
SELECT queue, name, coalesce(flow_key, ''), count(*) FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running'
GROUP BY queue, name, coalesce(flow_key, '');

-- name: count_holding
SELECT queue, name, coalesce(flow_key, ''), count(*) FROM onward_run INDEXED BY onward_run_holding
WHERE namespace = :namespace AND holds = 1 AND state IN ('ready', 'waiting', 'paused')
GROUP BY queue, name, coalesce(flow_key, '');

-- name: count_ready
-- How many runs of a queue could be claimed if nothing limited them; at most `:max` are counted.
SELECT (SELECT count(*) FROM (
            SELECT 1 FROM onward_run INDEXED BY onward_run_ready
            WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL AND queue = :queue
            LIMIT CAST(:max AS BIGINT)) f)
       + (SELECT count(*) FROM (
            SELECT 1 FROM onward_run INDEXED BY onward_run_flow
            WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL
              AND queue = :queue
            LIMIT CAST(:max AS BIGINT)) l);

-- name: levels_of_queue
-- The priorities of what is ready in a queue, one step down the index each.
WITH RECURSIVE level (priority) AS (
    SELECT (SELECT priority FROM onward_run INDEXED BY onward_run_flow
            WHERE namespace = :namespace AND queue = :queue AND state = 'ready'
              AND flow_key IS NOT NULL
            ORDER BY priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT r.priority FROM onward_run r INDEXED BY onward_run_flow
            WHERE r.namespace = :namespace AND r.queue = :queue AND r.state = 'ready'
              AND r.flow_key IS NOT NULL AND r.priority < level.priority
            ORDER BY r.priority DESC LIMIT 1)
    FROM level WHERE level.priority IS NOT NULL
)
SELECT priority FROM level WHERE priority IS NOT NULL;

-- name: next_keys
-- The last key of the next runs in the index, how many of these there are, and how many keys they have.
SELECT max(flow_key), count(*), count(DISTINCT flow_key) FROM (
    SELECT flow_key FROM onward_run INDEXED BY onward_run_flow
    WHERE namespace = :namespace AND queue = :queue AND priority = :priority AND state = 'ready'
      AND flow_key IS NOT NULL AND flow_key >= :key
    ORDER BY flow_key LIMIT CAST(:limit AS BIGINT)) r;

-- name: open_lanes
-- The keys and workflows of what is ready in a queue with one priority, from one key up to another, without
-- those keys that have no room for certain: thousands of them are passed by in one statement. `:most` is the
-- limit of every key that nothing is set for. A full key has no room at all, or with `:holding` none for
-- new runs; nor has a key whose rate is used up.
WITH set_key AS MATERIALIZED (
    SELECT name FROM onward_flow INDEXED BY onward_flow_set
    WHERE namespace = :namespace AND scope = :queue AND {is_set}
), full_key AS MATERIALIZED (
    SELECT flow_key FROM (
        SELECT flow_key FROM onward_run INDEXED BY onward_run_flow_running
        WHERE namespace = :namespace AND queue = :queue AND state = 'running'
          AND flow_key IS NOT NULL
        UNION ALL
        SELECT flow_key FROM onward_run INDEXED BY onward_run_holding
        WHERE namespace = :namespace AND queue = :queue AND holds = 1
          AND state IN ('ready', 'waiting', 'paused') AND flow_key IS NOT NULL
          AND CAST(:holding AS BIGINT) = 1) c
    GROUP BY flow_key HAVING count(*) >= CAST(:most AS BIGINT)
), used_up AS MATERIALIZED (
    SELECT name FROM onward_flow INDEXED BY onward_flow_next
    WHERE namespace = :namespace AND next_at IS NOT NULL AND next_at > :now
      AND kind = 'key' AND scope = :queue AND updated_at <= :now + CAST(:ahead AS BIGINT)
)
SELECT flow_key, name FROM onward_run r INDEXED BY onward_run_flow
WHERE namespace = :namespace AND queue = :queue AND priority = :priority AND state = 'ready'
  AND flow_key IS NOT NULL AND flow_key >= :key AND flow_key < :last
  AND (CAST(:holding AS BIGINT) = 1 OR flow_key = '' OR flow_key IN (SELECT name FROM set_key)
       OR CAST(:most AS BIGINT) > 0 AND flow_key NOT IN (SELECT flow_key FROM full_key))
GROUP BY flow_key, name
HAVING flow_key = '' OR flow_key IN (SELECT name FROM set_key)
    OR CAST(:most AS BIGINT) > 0 AND flow_key NOT IN (SELECT flow_key FROM full_key)
       AND flow_key NOT IN (SELECT name FROM used_up)
    OR (SELECT 1 FROM onward_run b INDEXED BY onward_run_flow
        WHERE b.namespace = :namespace AND b.queue = :queue AND b.priority = :priority
          AND b.state = 'ready' AND b.flow_key IS NOT NULL AND b.flow_key = r.flow_key
          AND b.name = r.name AND {rank} = 0 LIMIT 1) IS NOT NULL
ORDER BY flow_key, name LIMIT CAST(:limit AS BIGINT);

-- name: keys_to_claim
-- How many runs of each key are running, and its row, if it has one.
SELECT j.value, (SELECT count(*) FROM onward_run r INDEXED BY onward_run_flow_running
                 WHERE r.namespace = :namespace AND r.queue = :queue AND r.flow_key = j.value
                   AND r.flow_key IS NOT NULL AND r.state = 'running'), {flow_columns}
FROM json_each(:keys) j
LEFT JOIN onward_flow f ON f.namespace = :namespace AND f.kind = 'key' AND f.scope = :queue AND f.name = j.value;

-- name: forget_next_starts
-- When the next start may be is computed anew, because the limits of keys have changed.
UPDATE onward_flow SET next_at = NULL
WHERE namespace = :namespace AND kind = 'key' AND scope = :scope AND next_at IS NOT NULL
  AND (name = :name OR CAST(:name AS TEXT) = '*');

-- name: limited_suspects
SELECT uid, priority, due, queue, name, flow_key, {rank}, crashes
FROM onward_run INDEXED BY onward_run_suspect
WHERE namespace = :namespace AND crashes > 0 AND state IN ('ready', 'running', 'waiting')
  AND crashes >= :suspect_at
  AND state = 'ready' AND coalesce(flow_key, '-') <> '-'
  AND queue IN (SELECT value FROM json_each(:queues))
  AND {offered};
