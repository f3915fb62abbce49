-- Pausing and resuming a run with all runs that work for it. core.run decides the state of each:
-- `Held` and `Freed`. A run that is being cancelled is not paused, nor are the runs below it: they
-- clean up. Each change is an insert that always meets its row: unlike an update it can find the row
-- by nothing but the key, whichever plan was made.

-- name: bound_below
-- The open runs that are cancelled with one of these.
SELECT r.uid
FROM json_each(:uids) j
CROSS JOIN onward_run r INDEXED BY onward_run_parent
    ON r.namespace = :namespace AND r.parent = j.value AND r.parent IS NOT NULL
WHERE r.cancel_with_parent = 1 AND r.state IN ('ready', 'running', 'waiting', 'paused')
  AND (SELECT i.seq FROM onward_inbox i
       WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
         AND i.message = 'cancel' AND i.run = r.uid) IS NULL
  AND (SELECT i.seq FROM onward_inbox i
       WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
         AND i.message = 'deadline' AND i.run = r.uid) IS NULL;

-- name: hold_runs
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, created_at, updated_at)
SELECT l.namespace, l.uid, '', 'workflow', '', '', 'paused', :now, :now
FROM json_each(:uids) j
CROSS JOIN onward_run l ON l.namespace = :namespace AND l.uid = j.value
WHERE l.state IN ('ready', 'running', 'waiting', 'paused')
ON CONFLICT (namespace, uid) DO UPDATE
SET held_by = trim(trim(replace(' ' || r.held_by || ' ', ' ' || CAST(:source AS TEXT) || ' ', ' '))
                   || ' ' || CAST(:source AS TEXT)),
    state = CASE WHEN r.state IN ('ready', 'waiting') THEN 'paused' ELSE r.state END,
    reason = CASE WHEN r.state IN ('ready', 'waiting') THEN 'operator' ELSE r.reason END,
    due = CASE WHEN r.state IN ('ready', 'waiting') THEN NULL ELSE r.due END,
    updated_at = excluded.updated_at
RETURNING uid, state;

-- name: unhold_runs
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, held_by, created_at, updated_at)
SELECT l.namespace, l.uid, '', 'workflow', '', '', 'paused',
       trim(replace(' ' || l.held_by || ' ', ' ' || CAST(:source AS TEXT) || ' ', ' ')), :now, :now
FROM json_each(:uids) j
CROSS JOIN onward_run l ON l.namespace = :namespace AND l.uid = j.value
WHERE l.state IN ('ready', 'running', 'waiting', 'paused')
  AND instr(' ' || l.held_by || ' ', ' ' || CAST(:source AS TEXT) || ' ') > 0
ON CONFLICT (namespace, uid) DO UPDATE
SET held_by = excluded.held_by  -- its state does not change here
RETURNING uid, state;

-- name: free_runs
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, created_at, updated_at)
SELECT l.namespace, l.uid, '', 'workflow', '', '', 'paused', :now, :now
FROM json_each(:uids) j
CROSS JOIN onward_run l ON l.namespace = :namespace AND l.uid = j.value
WHERE l.state = 'paused' AND l.reason = 'operator' AND l.held_by = ''
ON CONFLICT (namespace, uid) DO UPDATE
SET state = CASE WHEN r.fence = 0 AND r.scheduled_at > :now THEN 'waiting' ELSE 'ready' END,
    reason = NULL,
    due = CASE WHEN r.fence = 0 AND r.scheduled_at > :now THEN r.scheduled_at ELSE :now END,
    updated_at = excluded.updated_at
RETURNING queue;
