-- Pausing and resuming a run with all that work for it. What becomes of each is decided by core.run:
-- `Held` and `Freed`. A run that was told to stop is left alone, with all below it: they clean up.

-- name: bound_below
-- The open runs that are cancelled with one of these.
SELECT r.uid
FROM json_each(:uids) j
CROSS JOIN onward_run r INDEXED BY onward_run_parent
    ON r.namespace = :namespace AND r.parent = j.value
WHERE r.cancel_with_parent = 1 AND r.state IN ('ready', 'running', 'waiting', 'paused')
  AND (SELECT i.seq FROM onward_inbox i
       WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
         AND i.message = 'cancel' AND i.run = r.uid) IS NULL
  AND (SELECT i.seq FROM onward_inbox i
       WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
         AND i.message = 'deadline' AND i.run = r.uid) IS NULL;

-- name: hold_runs
UPDATE onward_run
SET held_by = trim(trim(replace(' ' || held_by || ' ', ' ' || :source || ' ', ' ')) || ' ' || :source),
    state = CASE WHEN state IN ('ready', 'waiting') THEN 'paused' ELSE state END,
    reason = CASE WHEN state IN ('ready', 'waiting') THEN 'operator' ELSE reason END,
    due = CASE WHEN state IN ('ready', 'waiting') THEN NULL ELSE due END,
    updated_at = :now
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND state IN ('ready', 'running', 'waiting', 'paused')
RETURNING uid, state;

-- name: let_go
UPDATE onward_run
SET held_by = trim(replace(' ' || held_by || ' ', ' ' || :source || ' ', ' ')), updated_at = :now
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND held_by <> trim(replace(' ' || held_by || ' ', ' ' || :source || ' ', ' '))
  AND state IN ('ready', 'running', 'waiting', 'paused')
RETURNING uid, state;

-- name: free_runs
UPDATE onward_run
SET state = CASE WHEN fence = 0 AND scheduled_at > :now THEN 'waiting' ELSE 'ready' END,
    reason = NULL,
    due = CASE WHEN fence = 0 AND scheduled_at > :now THEN scheduled_at ELSE :now END,
    updated_at = :now
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
  AND state = 'paused' AND reason = 'operator' AND held_by = ''
RETURNING queue;
