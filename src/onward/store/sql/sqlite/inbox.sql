-- Sending on SQLite. The run's row counts the messages; parking compares that count.

-- name: target_seen
SELECT uid, state FROM onward_run WHERE namespace = :namespace AND uid = :target
UNION ALL
SELECT uid, state FROM onward_run WHERE namespace = :namespace AND id = :target AND newest = 1
LIMIT 1;

-- name: message_seen
SELECT seq FROM onward_inbox WHERE namespace = :namespace AND run = :run AND message = :message;

-- name: raise_inbox
-- Every message wakes a run that waits, and some wake one that is paused for a certain reason.
UPDATE onward_run
SET inbox = inbox + 1,
    reason = CASE WHEN state = 'running' OR state = 'paused' AND instr(:stirs, ',' || reason || ',') = 0
                  THEN reason END,
    due = CASE WHEN state = 'waiting' OR state = 'paused' AND instr(:stirs, ',' || reason || ',') > 0
               THEN :now ELSE due END,
    state = CASE WHEN state = 'waiting' OR state = 'paused' AND instr(:stirs, ',' || reason || ',') > 0
                 THEN 'ready' ELSE state END,
    updated_at = :now
WHERE namespace = :namespace AND uid = :run
  AND state IN ('ready', 'running', 'waiting', 'paused')
RETURNING inbox, queue;

-- name: add_message(run, seq, message, kind, name, payload, namespace, now)
INSERT INTO onward_inbox (namespace, run, seq, message, kind, name, payload, sent_at)
VALUES (:namespace, :run, :seq, :message, :kind, :name, :payload, :now)
ON CONFLICT DO NOTHING;

-- name: drop_mark
DELETE FROM onward_mark WHERE namespace = :namespace AND message = :message;

-- name: oldest_marks
SELECT message, target, kind, name, payload, stirs FROM onward_mark
WHERE namespace = :namespace ORDER BY message LIMIT :limit;
