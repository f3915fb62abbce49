-- Claiming on SQLite: short index scans for what may be claimed, then one update. A run whose worker
-- has no lease row is an orphan. Suspects (runs that were running when workers vanished) are claimed
-- separately, few at a time, so that a run that crashes its worker affects few others. Runs under
-- flow control are chosen by the statements of flow.sql, unless they are running already: adopting one
-- does not make them more.

-- name: ready_candidates
SELECT uid, priority, {rank}, due, queue, name FROM onward_run
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL AND queue = :queue
  AND crashes < :suspect_at
  AND {offered}
ORDER BY priority DESC, {rank}, due
LIMIT :limit;

-- name: due_candidates
SELECT uid, priority, {rank}, due, queue, name FROM onward_run
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now AND due <= :latest
  AND flow_key IS NULL
  AND crashes < :suspect_at
  AND queue IN (SELECT value FROM json_each(:queues))
  AND {offered}
ORDER BY due
LIMIT :limit;

-- name: orphan_candidates
SELECT uid, priority, 0, 0, queue, name, worker FROM onward_run r INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running' AND crashes + 1 < :suspect_at
  AND queue IN (SELECT value FROM json_each(:queues))
  AND {offered}
  AND NOT EXISTS (SELECT 1 FROM onward_lease l
                  WHERE l.namespace = r.namespace AND l.worker = r.worker)
LIMIT :limit;

-- name: suspect_candidates
-- Those that will have so many crashes once they are claimed.
SELECT uid, priority, 0, 0, queue, name, CASE WHEN state = 'running' THEN worker END
FROM onward_run r INDEXED BY onward_run_suspect
WHERE namespace = :namespace AND crashes > 0 AND state IN ('ready', 'running', 'waiting')
  AND min(crashes + (state = 'running'), :max_crashes) = :crashes
  AND (flow_key IS NULL AND (state = 'ready' OR state = 'waiting' AND due <= min(:now, :latest))
       OR state = 'running' AND NOT EXISTS (
           SELECT 1 FROM onward_lease l WHERE l.namespace = r.namespace AND l.worker = r.worker))
  AND queue IN (SELECT value FROM json_each(:queues))
  AND {offered}
LIMIT :room;

-- name: run_bytes
-- For one run at a time: to find a large row of this table, SQLite also reads other large ones.
SELECT coalesce(length(input), 0) + coalesce(length(attributes), 0) FROM onward_run_data
WHERE namespace = :namespace AND uid = :uid;

-- name: claim_run(uid)
UPDATE onward_run AS r
SET state = 'running', reason = NULL, worker = :worker, fence = r.fence + 1,
    crashes = r.crashes + (r.state = 'running'), due = NULL,
    started_at = coalesce(r.started_at, :now), updated_at = :now
WHERE r.namespace = :namespace AND r.uid = :uid;

-- name: hold_places
UPDATE onward_run SET holds = 1
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids));

-- name: claimed_runs
SELECT r.uid, r.id, r.kind, r.name, r.version, r.queue, r.fence, r.inbox, r.seq, r.crashes,
       r.deadline, r.parent, r.parent_identity, r.root, r.cancel_with_parent, r.follows, r.link, r.attempt,
       r.origin, r.handler, r.handler_key, r.phase, r.scheduled_at, r.created_at, r.started_at, r.priority, r.tags,
       r.held_by, d.input, d.args_hash, d.trace, d.retry, d.attributes, d.beginning,
       :now AS claimed_at, j.value AS ready_at
FROM json_each(:ready_at) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.key
LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
ORDER BY j.id;

