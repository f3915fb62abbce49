-- Pausing and resuming a run with all that work for it. What becomes of each is decided by core.run:
-- `Held` and `Freed`. A run that was told to stop is left alone, with all below it: they clean up.

-- name: bound_below
-- The open runs that are cancelled with one of these.
SELECT c.uid FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid FROM onward_run r
    WHERE namespace = :namespace::text AND parent = u.uid AND parent IS NOT NULL AND cancel_with_parent = 1
      AND state IN ('ready', 'running', 'waiting', 'paused')
      AND (SELECT i.seq FROM onward_inbox i
           WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
             AND i.message = 'cancel' AND i.run = r.uid) IS NULL
      AND (SELECT i.seq FROM onward_inbox i
           WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
             AND i.message = 'deadline' AND i.run = r.uid) IS NULL
    OFFSET 0) c;

-- name: hold_runs
-- An insert that always meets its row: see `moved` in commit.sql.
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, created_at, updated_at)
SELECT :namespace::text, l.uid, '', 'workflow', '', '', 'paused', :now, :now
FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid FROM onward_run
    WHERE namespace = :namespace::text AND uid = u.uid
      AND state IN ('ready', 'running', 'waiting', 'paused') LIMIT 1) l
ON CONFLICT (namespace, uid) DO UPDATE
SET held_by = trim(trim(replace(' ' || r.held_by || ' ', ' ' || :source::text || ' ', ' '))
                   || ' ' || :source::text),
    state = CASE WHEN r.state IN ('ready', 'waiting') THEN 'paused' ELSE r.state END,
    reason = CASE WHEN r.state IN ('ready', 'waiting') THEN 'operator' ELSE r.reason END,
    due = CASE WHEN r.state IN ('ready', 'waiting') THEN NULL ELSE r.due END,
    updated_at = excluded.updated_at
RETURNING uid, state;

-- name: let_go
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, held_by, created_at, updated_at)
SELECT :namespace::text, l.uid, '', 'workflow', '', '', 'paused', l.left_over, :now, :now
FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid, held_by,
           trim(replace(' ' || held_by || ' ', ' ' || :source::text || ' ', ' ')) AS left_over
    FROM onward_run
    WHERE namespace = :namespace::text AND uid = u.uid
      AND state IN ('ready', 'running', 'waiting', 'paused') LIMIT 1) l
WHERE l.held_by <> l.left_over
ON CONFLICT (namespace, uid) DO UPDATE
SET held_by = excluded.held_by, updated_at = excluded.updated_at
RETURNING uid, state;

-- name: free_runs
INSERT INTO onward_run AS r (
    namespace, uid, id, kind, name, queue, state, created_at, updated_at)
SELECT :namespace::text, l.uid, '', 'workflow', '', '', 'paused', :now, :now
FROM unnest(:uids::text[]) u (uid), LATERAL (
    SELECT uid FROM onward_run
    WHERE namespace = :namespace::text AND uid = u.uid
      AND state = 'paused' AND reason = 'operator' AND held_by = '' LIMIT 1) l
ON CONFLICT (namespace, uid) DO UPDATE
SET state = CASE WHEN r.fence = 0 AND r.scheduled_at > :now THEN 'waiting' ELSE 'ready' END,
    reason = NULL,
    due = CASE WHEN r.fence = 0 AND r.scheduled_at > :now THEN r.scheduled_at ELSE :now END,
    updated_at = excluded.updated_at
RETURNING queue;
