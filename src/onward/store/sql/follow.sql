-- How one run follows another: a new row made from the old one, with the part of its history and
-- inbox that it begins with. All of it is one transaction that has the old row locked.

-- name: end_followed
UPDATE onward_run
SET newest = 0, state = :state, reason = :reason, phase = coalesce(CAST(:phase AS TEXT), phase),
    due = NULL, worker = NULL, crashes = 0, held_by = '',
    seq = CASE WHEN CAST(:seq AS BIGINT) > seq THEN CAST(:seq AS BIGINT) ELSE seq END,
    finished_at = :now, updated_at = :now
WHERE namespace = :namespace AND uid = :uid;

-- name: be_followed
-- With `discard_run`, the only change of a run that has ended.
UPDATE onward_run SET newest = 0 WHERE namespace = :namespace AND uid = :uid;

-- name: run_beginning
SELECT beginning FROM onward_run_data WHERE namespace = :namespace AND uid = :uid;

-- name: last_position
SELECT coalesce(max(seq), 0) FROM onward_record WHERE namespace = :namespace AND run = :run;

-- name: follow_run
-- A fork under another id has no parent: the parent waits for the old run. Nor has it a schedule. A pause of the parent also
-- pauses the new run. A pause of the old run itself ends with that run.
INSERT INTO onward_run (
    namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, reason, due,
    deadline, seq, inbox, parent, parent_identity, root, cancel_with_parent, follows, link, chain, attempt,
    origin, handler, handler_key, lane, schedule, held_by, scheduled_at, created_at, updated_at)
SELECT o.namespace, CAST(:new_uid AS TEXT), coalesce(CAST(:id AS TEXT), o.id), o.kind, o.name,
       o.version, o.queue, o.priority, o.flow_key, o.tags,
       CASE WHEN o.held_above <> '' THEN 'paused' WHEN t.delay_in > 0 THEN 'waiting'
            ELSE 'ready' END,
       CASE WHEN o.held_above <> '' THEN 'operator' END,
       CASE WHEN o.held_above = '' THEN t.now + t.delay_in END,
       CASE WHEN CAST(:keeps_deadline AS BIGINT) = 1 THEN o.deadline
            ELSE o.deadline - o.scheduled_at + t.now + t.delay_in END,
       CAST(:seq AS BIGINT), o.inbox, CASE WHEN CAST(:id AS TEXT) IS NULL THEN o.parent END,
       CASE WHEN CAST(:id AS TEXT) IS NULL THEN o.parent_identity END,
       CASE WHEN CAST(:id AS TEXT) IS NULL THEN o.root END,
       CASE WHEN CAST(:id AS TEXT) IS NULL THEN o.cancel_with_parent ELSE 0 END, o.uid,
       CAST(:link AS TEXT),
       CASE WHEN CAST(:same_start AS BIGINT) = 1 THEN coalesce(o.chain, o.uid) END,
       CAST(:attempt AS BIGINT), CAST(:origin AS TEXT), o.handler, o.handler_key, o.lane,
       CASE WHEN CAST(:id AS TEXT) IS NULL THEN o.schedule END, o.held_above,
       t.now + t.delay_in, t.now, t.now
FROM (SELECT r.*, coalesce((SELECT p.held_by FROM onward_run p
                            WHERE p.namespace = r.namespace AND p.uid = r.parent AND r.cancel_with_parent = 1
                              AND CAST(:id AS TEXT) IS NULL), '') AS held_above
      FROM onward_run r WHERE r.namespace = :namespace AND r.uid = :old) o,
     (SELECT CAST(:now AS BIGINT) AS now, CAST(:delay_in AS BIGINT) AS delay_in) t
WHERE true
ON CONFLICT DO NOTHING
RETURNING state, queue, coalesce(chain, uid);

-- name: move_children
-- The open runs that are cancelled with a run belong to the one that continues it. No call of that one
-- started them, so they do not report their ends to it.
UPDATE onward_run INDEXED BY onward_run_parent SET parent = :new_uid, parent_identity = NULL
WHERE namespace = :namespace AND parent = :old AND cancel_with_parent = 1
  AND state IN ('ready', 'running', 'waiting', 'paused');

-- name: follow_data
-- A fork under another id, and a run that replaces another, count as starts of their own.
INSERT INTO onward_run_data (
    namespace, uid, input, args_hash, start_hash, trace, retry, attributes, beginning, delay)
SELECT namespace, CAST(:new_uid AS TEXT), coalesce(:input, input),
       coalesce(CAST(:args_hash AS TEXT), args_hash),
       CASE WHEN CAST(:same_start AS BIGINT) = 1 THEN coalesce(start_hash, args_hash) END,
       trace, retry,
       CASE WHEN CAST(:keeps_attributes AS BIGINT) = 1 THEN coalesce(:attributes, attributes)
            ELSE :attributes END, CAST(:beginning AS TEXT), nullif(CAST(:delay_in AS BIGINT), 0)
FROM onward_run_data WHERE namespace = :namespace AND uid = :old;

-- name: copy_records
-- The calls that were delivered before `cut`, with their failed attempts and their notes, which have
-- no position.
INSERT INTO onward_record (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
    payload, error, opened_at, closed_at, args)
SELECT namespace, CAST(:new_uid AS TEXT), identity, attempt, seq, kind, name, state, args_hash,
       version, due, message, payload, error, opened_at, closed_at, args
FROM onward_record
WHERE namespace = :namespace AND run = :old AND (
    identity IN (SELECT identity FROM onward_record
                 WHERE namespace = :namespace AND run = :old AND seq < :cut)
    OR kind = 'note' AND identity IN (
        SELECT '=note.of.' || identity FROM onward_record
        WHERE namespace = :namespace AND run = :old AND seq < :cut));

-- name: copy_aside
-- Outcomes kept aside that the old run did not use either.
INSERT INTO onward_record (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
    payload, error, opened_at, closed_at, args)
SELECT namespace, CAST(:new_uid AS TEXT), identity, attempt, seq, kind, name, state, args_hash,
       version, due, message, payload, error, opened_at, closed_at, args
FROM onward_record
WHERE namespace = :namespace AND run = :old AND kind = 'memo'
ON CONFLICT DO NOTHING;

-- name: keep_aside
-- What was completed from `cut` on beside the call that failed, with its notes: stored under another
-- identity and without a position, because the new run has not made these calls yet.
INSERT INTO onward_record (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, payload,
    opened_at, closed_at, args)
SELECT h.namespace, CAST(:new_uid AS TEXT), '=memo.' || h.identity, 1, NULL, 'memo',
       h.kind || ' ' || h.name, h.state, h.args_hash, h.version, h.payload, h.opened_at, h.closed_at,
       h.args
FROM onward_record h
WHERE h.namespace = :namespace AND h.run = :old AND h.state = 'succeeded' AND (
    h.seq >= CAST(:cut AS BIGINT) AND h.identity IN (SELECT value FROM json_each(:beside))
    OR h.kind = 'note' AND h.identity IN (SELECT '=note.of.' || b.value FROM json_each(:beside) b));

-- name: edit_record
INSERT INTO onward_record (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
    payload, error, opened_at, closed_at, args)
VALUES (:namespace, :run, :identity, 1, :seq, :kind, :name, :state, :args_hash, :version, :due,
        :message, :payload, :error, :now, :now, :args);

-- name: copy_message
-- A signal that a record of the old run has consumed but that was never delivered to its code.
INSERT INTO onward_inbox (namespace, run, seq, chain, message, kind, name, payload, sent_at)
SELECT namespace, CAST(:new_uid AS TEXT), seq, CAST(:chain AS TEXT), message, kind, name, payload,
       sent_at
FROM onward_inbox
WHERE namespace = :namespace AND run = :old AND seq = :seq AND kind = 'signal'
ON CONFLICT DO NOTHING;

-- name: copy_messages
-- Messages that a copied record has consumed, and signals: all, the unread ones, or none. They keep
-- their numbers.
INSERT INTO onward_inbox (namespace, run, seq, chain, message, kind, name, payload, sent_at)
SELECT namespace, CAST(:new_uid AS TEXT), seq, CAST(:chain AS TEXT), message, kind, name, payload,
       sent_at
FROM onward_inbox
WHERE namespace = :namespace AND run = :old AND (
    seq IN (SELECT message FROM onward_record
            WHERE namespace = :namespace AND run = :new_uid AND message IS NOT NULL)
    OR kind = 'signal' AND (
        CAST(:signals AS TEXT) = 'all'
        OR CAST(:signals AS TEXT) = 'unread' AND seq NOT IN (
            SELECT message FROM onward_record
            WHERE namespace = :namespace AND run = :old AND message IS NOT NULL)));

-- name: sent_after
-- Effects that were or may have been applied and that a fork would send again: those of the run, of
-- the runs that it retries, and of all their descendants, except below calls that the fork keeps or
-- edits. Of the runs that it is a fork of, only the calls that it has copied count.
WITH RECURSIVE line(uid, forked) AS (
    SELECT uid, 0 FROM onward_run WHERE namespace = :namespace AND uid = :old
    UNION ALL
    SELECT r.follows, CASE r.link WHEN 'forked_from' THEN 1 ELSE l.forked END FROM line l
    CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = l.uid
        AND r.link IN ('retry_of', 'forked_from')
), family(uid, asked, forked) AS (
    SELECT uid, nullif(uid, uid), forked FROM line
    UNION ALL
    SELECT c.uid, coalesce(k.asked, c.parent_identity), k.forked FROM family k
    CROSS JOIN onward_run c INDEXED BY onward_run_parent
        ON c.namespace = :namespace AND c.parent = k.uid AND c.parent IS NOT NULL
        AND c.parent_identity IS NOT NULL
)
SELECT e.name, e.key FROM family k
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = :namespace AND e.run = k.uid AND e.run IS NOT NULL
WHERE e.attempt > 0
  AND e.state IN ('in_flight', 'needs_reconcile', 'indeterminate', 'applied', 'skipped')
  AND coalesce(k.asked, e.identity) <> CAST(:named AS TEXT)
  AND coalesce(k.asked, e.identity) NOT IN (
      SELECT identity FROM onward_record
      WHERE namespace = :namespace AND run = :old AND seq < :cut)
  AND (k.forked = 0 OR coalesce(k.asked, e.identity) IN (
      SELECT identity FROM onward_record
      WHERE namespace = :namespace AND run = :old AND seq IS NOT NULL))
ORDER BY e.created_at, e.key LIMIT :limit;

-- name: sent_by_forks
-- Effects that were or may have been applied by forks below a run, and by what these forks started. A
-- retry of the run, which keeps the calls before `cut`, starts the runs of the others again, under the
-- keys that they used first, so that it would send these effects again. A run with an id of its own
-- that has succeeded is not started again. A parent is compared as `coalesce(parent, '')`, or Postgres
-- would read all siblings of each child by the index on parents.
WITH RECURSIVE family(uid, asked, forked) AS (
    SELECT uid, nullif(uid, uid), 0 FROM onward_run WHERE namespace = :namespace AND uid = :uid
    UNION ALL
    SELECT c.uid, coalesce(k.asked, c.parent_identity),
           CASE WHEN k.forked = 1 OR c.origin IS NULL OR (
               SELECT count(*) FROM onward_run f
               WHERE f.namespace = :namespace AND f.uid = c.origin
                 AND coalesce(f.parent, '') = k.uid AND f.link = 'forked_from') = 1 THEN 1 ELSE 0 END
    FROM family k
    CROSS JOIN onward_run c INDEXED BY onward_run_parent
        ON c.namespace = :namespace AND c.parent = k.uid AND c.parent IS NOT NULL
        AND c.parent_identity IS NOT NULL
    WHERE k.forked = 1
       OR c.cancel_with_parent = 1
      AND (k.asked IS NOT NULL OR (
           SELECT count(*) FROM onward_record d
           WHERE d.namespace = :namespace AND d.run = :uid AND d.identity = c.parent_identity
             AND d.seq < CAST(:cut AS BIGINT)) = 0)
      AND (SELECT count(*) FROM onward_run n INDEXED BY onward_run_newest
           WHERE n.namespace = :namespace AND n.id = c.id AND n.newest = 1
             AND coalesce(n.parent, '') = k.uid AND n.parent_identity = c.parent_identity
             AND n.state = 'succeeded' AND n.id <> coalesce(n.chain, n.uid)) = 0
)
SELECT e.name, e.key FROM family k
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = :namespace AND e.run = k.uid AND e.run IS NOT NULL
WHERE k.forked = 1 AND e.attempt > 0
  AND e.state IN ('in_flight', 'needs_reconcile', 'indeterminate', 'applied', 'skipped')
ORDER BY e.created_at, e.key;

-- name: failed_children
-- Children that a retry of their parent starts again if it makes the same calls.
SELECT uid, parent_identity FROM onward_run INDEXED BY onward_run_parent
WHERE namespace = :namespace AND parent = :uid AND parent IS NOT NULL AND cancel_with_parent = 1
  AND newest <> 0
  AND parent_identity IS NOT NULL
  AND state IN ('failed', 'cancelled', 'timed_out');
