-- Sending on SQLite. The run's row counts the messages; parking compares that count.

-- name: messages_seen
-- Which of these messages are there: for the run itself or, with `in_chain`, for any run of its chain.
SELECT i.message, i.seq FROM onward_run r
CROSS JOIN json_each(:messages) j
CROSS JOIN onward_inbox i INDEXED BY onward_inbox_message
    ON i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid) AND i.message = j.value
WHERE r.namespace = :namespace AND r.uid = :run
  AND (i.run = r.uid OR :in_chain AND i.kind = 'signal');

-- name: raise_inbox
-- Every message wakes a waiting run, and some wake a run that is paused for a certain reason. A run
-- that was never claimed does not start early: it finds the message when it starts, unless the message
-- ends it, which also ends every pause of it.
UPDATE onward_run AS r
SET inbox = r.inbox + :count,
    state = CASE WHEN w.wakes THEN 'ready' ELSE r.state END,
    reason = CASE WHEN NOT w.wakes THEN r.reason END,
    due = CASE WHEN w.wakes THEN :now ELSE r.due END,
    held_by = CASE WHEN instr(:wakes, ',unstarted,') > 0 THEN '' ELSE r.held_by END,
    updated_at = CASE WHEN w.wakes THEN :now ELSE r.updated_at END
FROM (SELECT (fence > 0 OR instr(:wakes, ',unstarted,') > 0) AND (
             state = 'waiting'
             OR state = 'paused' AND instr(:wakes, ',' || reason || ',') > 0) AS wakes
      FROM onward_run WHERE namespace = :namespace AND uid = :run) w
WHERE r.namespace = :namespace AND r.uid = :run
  AND r.state IN ('ready', 'running', 'waiting', 'paused')
RETURNING inbox, queue, coalesce(chain, uid);

-- name: add_message(run, seq, chain, message, kind, name, payload)
INSERT INTO onward_inbox (namespace, run, seq, chain, message, kind, name, payload, sent_at)
VALUES (:namespace, :run, :seq, :chain, :message, :kind, :name, :payload, :now)
ON CONFLICT DO NOTHING;

-- name: oldest_outbox
SELECT seq, target, message, kind, name, payload, wakes FROM onward_outbox
WHERE namespace = :namespace ORDER BY seq LIMIT :limit;

-- name: look
-- Messages after the ones that are known. The payloads of signals and ends of children are left out
-- once they add up to the budget: their sizes are added first, for a window keeps whole rows.
SELECT i.run, i.seq, i.message, i.kind, i.name,
       CASE WHEN t.is_omitted = 0 THEN i.payload END AS payload, i.sent_at, t.is_omitted
FROM (SELECT h.run, h.seq, h.kind IN ('signal', 'child') AND h.payload IS NOT NULL
             AND sum(length(h.payload)) OVER (ORDER BY h.run, h.seq) > :budget AS is_omitted
      FROM json_each(:after) j
      CROSS JOIN onward_inbox h
        ON h.namespace = :namespace AND h.run = j.key AND h.seq > j.value) t
CROSS JOIN onward_inbox i ON i.namespace = :namespace AND i.run = t.run AND i.seq = t.seq
ORDER BY i.run, i.seq;
