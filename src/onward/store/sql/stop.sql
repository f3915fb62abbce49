-- Ending runs from outside, at once or by a message, and the messages to their parents and children.

-- name: stop_run
-- The fence rises, so the next write of its owner is refused.
UPDATE onward_run
SET state = :state, reason = :reason, worker = NULL, fence = fence + 1, due = NULL,
    held_by = '', error_type = :error_type, failed_step = :failed_step,
    finished_at = :now, updated_at = :now
WHERE namespace = :namespace AND uid = :uid
  AND state IN ('ready', 'running', 'waiting', 'paused')
  AND (fence = 0 OR CAST(:unstarted_only AS BIGINT) = 0)
RETURNING queue;

-- name: keep_end(uid, result, error, failed_call, progress, lost)
-- A run whose data row is lost still gets its result or error.
INSERT INTO onward_run_data AS d (namespace, uid, input, args_hash, result, error, failed_call, progress)
VALUES (:namespace, :uid, :lost, '', :result, :error, :failed_call, :progress)
ON CONFLICT (namespace, uid) DO UPDATE
SET result = excluded.result, error = excluded.error, failed_call = excluded.failed_call,
    progress = coalesce(excluded.progress, d.progress);

-- name: is_owned
-- Whether a claim still holds.
SELECT 1 FROM onward_run
WHERE namespace = :namespace AND uid = :uid AND worker = :worker AND fence = :fence;

-- name: bound_children
-- Open children that are cancelled with their parent.
SELECT uid FROM onward_run INDEXED BY onward_run_parent
WHERE namespace = :namespace AND parent = :uid AND cancel_with_parent = 1
  AND state IN ('ready', 'running', 'waiting', 'paused');

-- name: is_stopping
-- Whether a run was sent a cancel or has passed its deadline.
SELECT EXISTS (SELECT 1 FROM onward_inbox i
               WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
                 AND i.message = 'cancel' AND i.run = r.uid)
       OR EXISTS (SELECT 1 FROM onward_inbox i
                  WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
                    AND i.message = 'deadline' AND i.run = r.uid)
FROM onward_run r WHERE r.namespace = :namespace AND r.uid = :uid;

-- name: overdue_runs
-- Open runs past their deadline that were not sent the message yet. The inbox is searched by a
-- subquery and not by a join, so that no plan can read the inboxes of other runs.
SELECT uid, fence, parent FROM onward_run r INDEXED BY onward_run_deadline
WHERE namespace = :namespace AND deadline IS NOT NULL AND deadline <= :now
  AND state IN ('ready', 'running', 'waiting', 'paused')
  AND (SELECT i.seq FROM onward_inbox i
       WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
         AND i.message = 'deadline' AND i.run = r.uid) IS NULL
ORDER BY deadline
LIMIT :limit;
