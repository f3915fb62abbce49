-- Limits by a key: of the runs that may be running at a time, and of the rate of calls.

-- name: limit_of
SELECT max_running FROM onward_limit WHERE namespace = :namespace AND key = :key;

-- name: set_limit
INSERT INTO onward_limit (namespace, key, max_running, updated_at)
VALUES (:namespace, :key, :max_running, :now)
ON CONFLICT (namespace, key) DO UPDATE SET max_running = excluded.max_running;

-- name: take_turn
-- Each caller is given a time of its own, one interval after the previous one. If a clock that was
-- ahead wrote the row, as many intervals are still to come as were then.
INSERT INTO onward_limit AS l (namespace, key, next_at, updated_at)
VALUES (:namespace, :key, :now + :interval, :now)
ON CONFLICT (namespace, key) DO UPDATE
SET next_at = CASE WHEN l.next_at IS NOT NULL AND l.updated_at > :now + :ahead
                   THEN l.next_at - l.updated_at + :now
                   WHEN l.next_at > :now THEN l.next_at ELSE :now END + :interval,
    updated_at = :now
RETURNING next_at - :interval - :now;

-- name: make_due_ready
-- Runs with a flow key that are due become ready, so that all that could be claimed is in one index,
-- in order. An insert that always meets its row: see hold.sql.
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
