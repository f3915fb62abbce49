-- What must hold in every database at every moment. Each statement returns the ids of what breaks
-- it; the line under its name says what it means. `check(store)` and `onward doctor` run them all.

-- name: check_owner
-- a running run has a worker and a fence, any other has no worker
SELECT uid FROM onward_run
WHERE namespace = :namespace AND (state = 'running') <> (worker IS NOT NULL AND fence > 0);

-- name: check_ready_is_due
-- a run that is ready was due when it became so
SELECT uid FROM onward_run
WHERE namespace = :namespace AND state = 'ready' AND due > updated_at;

-- name: check_end
-- a run has an end time if and only if it is over
SELECT uid FROM onward_run
WHERE namespace = :namespace
  AND (state IN ('succeeded', 'failed', 'cancelled', 'timed_out')) <> (finished_at IS NOT NULL);

-- name: check_data
-- a run has exactly one row of data
SELECT r.uid FROM onward_run r
WHERE r.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM onward_run_data d WHERE d.namespace = r.namespace AND d.uid = r.uid)
UNION ALL
SELECT d.uid FROM onward_run_data d
WHERE d.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM onward_run r WHERE r.namespace = d.namespace AND r.uid = d.uid);

-- name: check_newest
-- every id has exactly one newest run
SELECT id FROM onward_run WHERE namespace = :namespace GROUP BY id HAVING sum(newest) <> 1;

-- name: check_limbo
-- every open run has a lease, is claimable, has a due time, waits for something, or is paused
SELECT r.uid FROM onward_run r
WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.due IS NULL
  AND NOT EXISTS (SELECT 1 FROM onward_record h
                  WHERE h.namespace = r.namespace AND h.run = r.uid AND h.state = 'open')
UNION ALL
SELECT r.uid FROM onward_run r
WHERE r.namespace = :namespace AND r.state = 'paused' AND r.reason IS NULL;

-- name: check_held
-- no pause holds a run that is over
SELECT uid FROM onward_run
WHERE namespace = :namespace AND held_by <> ''
  AND state IN ('succeeded', 'failed', 'cancelled', 'timed_out');

-- name: check_orphan_record
-- a record belongs to a run
SELECT h.run FROM onward_record h
WHERE h.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM onward_run r WHERE r.namespace = h.namespace AND r.uid = h.run);

-- name: check_record_end
-- a record has a closing time if and only if it is closed, and only a closed one has a position
SELECT run FROM onward_record
WHERE namespace = :namespace
  AND ((state = 'open') = (closed_at IS NOT NULL) OR state = 'open' AND seq IS NOT NULL);

-- name: check_clock
-- a clock record has a position
SELECT run FROM onward_record WHERE namespace = :namespace AND kind = 'clock' AND seq IS NULL;

-- name: check_positions
-- the positions in a history are used once each and have no gaps
SELECT run FROM onward_record
WHERE namespace = :namespace AND seq IS NOT NULL
GROUP BY run
HAVING count(*) <> count(DISTINCT seq) OR min(seq) <> 1 OR max(seq) <> count(*);

-- name: check_attempts
-- the attempts of a call are numbered from one without gaps
SELECT run FROM onward_record
WHERE namespace = :namespace
GROUP BY run, identity HAVING min(attempt) <> 1 OR max(attempt) <> count(*);

-- name: check_inbox
-- no message has a number beyond the count of its run, and every message has a run
SELECT i.run FROM onward_inbox i
LEFT JOIN onward_run r ON r.namespace = i.namespace AND r.uid = i.run
WHERE i.namespace = :namespace AND (r.uid IS NULL OR i.seq > r.inbox OR i.seq < 1);

-- name: check_message_taken_once
-- a message closes at most one record, and that message is there
SELECT h.run FROM onward_record h
LEFT JOIN onward_inbox i ON i.namespace = h.namespace AND i.run = h.run AND i.seq = h.message
WHERE h.namespace = :namespace AND h.message IS NOT NULL AND i.seq IS NULL
UNION ALL
SELECT run FROM onward_record
WHERE namespace = :namespace AND message IS NOT NULL
GROUP BY run, message HAVING count(*) > 1;

-- name: check_parent
-- a child's parent is there
SELECT c.uid FROM onward_run c
WHERE c.namespace = :namespace AND c.parent IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM onward_run p WHERE p.namespace = c.namespace AND p.uid = c.parent);

-- name: check_bound
-- a run that is cancel_with_parent has a parent
SELECT uid FROM onward_run WHERE namespace = :namespace AND cancel_with_parent <> 0 AND parent IS NULL;

-- name: check_run_attempt
-- the attempts of a run are counted from one, and only a retry is a later one
SELECT uid FROM onward_run
WHERE namespace = :namespace AND (
    attempt < 1 OR attempt > 1 AND (link IS NULL OR link <> 'retry_of' OR origin IS NULL));

-- name: check_followed
-- a run that is followed under its own id is over, and not the newest
SELECT o.uid FROM onward_run o
WHERE o.namespace = :namespace
  AND (o.newest <> 0 OR o.state NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out'))
  AND EXISTS (SELECT 1 FROM onward_run f
              WHERE f.namespace = o.namespace AND f.follows = o.uid AND f.id = o.id);

-- name: check_tip
-- a run that is not the newest of its id is followed under it
SELECT o.uid FROM onward_run o
WHERE o.namespace = :namespace AND o.newest = 0
  AND NOT EXISTS (SELECT 1 FROM onward_run f
                  WHERE f.namespace = o.namespace AND f.follows = o.uid AND f.id = o.id);

-- name: check_chain
-- a run is followed at most once, forks aside
SELECT follows FROM onward_run
WHERE namespace = :namespace AND follows IS NOT NULL AND link <> 'forked_from'
GROUP BY follows HAVING count(*) > 1;

-- name: check_effect
-- a row of the ledger belongs to a run, and has been sent if it says that it was
SELECT e.key FROM onward_effect e
WHERE e.namespace = :namespace AND (
    e.version < 1
    OR e.state NOT IN ('planned', 'failed', 'skipped', 'withdrawn') AND e.attempt < 1
    OR NOT EXISTS (SELECT 1 FROM onward_run r WHERE r.namespace = e.namespace AND r.uid = e.run));

-- name: check_effect_planned
-- a run that is over has no planned effects: it has withdrawn them
SELECT e.key FROM onward_effect e
JOIN onward_run r ON r.namespace = e.namespace AND r.uid = e.run
WHERE e.namespace = :namespace AND e.state = 'planned'
  AND r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out');

-- name: check_delivery
-- a delivery has an event, and one that is reserved has a run that is there
SELECT d.event FROM onward_delivery d
WHERE d.namespace = :namespace AND (
    NOT EXISTS (SELECT 1 FROM onward_event e WHERE e.namespace = d.namespace AND e.uid = d.event)
    OR d.state = 'reserved' AND NOT EXISTS (
        SELECT 1 FROM onward_run r WHERE r.namespace = d.namespace AND r.uid = d.run));

-- name: check_delivery_holder
-- the run that has reserved an event is open, or blocks its handler
SELECT d.event FROM onward_delivery d
JOIN onward_run r ON r.namespace = d.namespace AND r.uid = d.run
WHERE d.namespace = :namespace AND d.state = 'reserved'
  AND r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out')
  AND NOT EXISTS (SELECT 1 FROM onward_handler h
                  WHERE h.namespace = d.namespace AND h.handler = d.handler
                    AND h.blocked_by = d.run);

-- name: check_delivery_kept
-- a consumer whose effect was or may have been applied keeps its events until it completes
SELECT r.uid FROM onward_run r
WHERE r.namespace = :namespace AND r.kind = 'consumer' AND r.newest = 1
  AND r.state IN ('failed', 'cancelled', 'timed_out')
  AND EXISTS (SELECT 1 FROM onward_effect e
              WHERE e.namespace = r.namespace AND e.run = r.uid AND e.state IN (
                  'in_flight', 'needs_reconcile', 'indeterminate', 'applied', 'skipped'))
  AND NOT EXISTS (SELECT 1 FROM onward_delivery d
                  WHERE d.namespace = r.namespace AND d.run = r.uid AND d.state = 'reserved');

-- name: check_delivery_work
-- what is pending for a handler and a key was counted as work for it
SELECT d.event FROM onward_delivery d
WHERE d.namespace = :namespace AND d.state = 'pending'
  AND NOT EXISTS (SELECT 1 FROM onward_handler h
                  WHERE h.namespace = d.namespace AND h.handler = d.handler AND h.key = d.key
                    AND h.published > 0);

-- name: check_lane
-- one run of a lane is open at a time
SELECT lane FROM onward_run
WHERE namespace = :namespace AND lane IS NOT NULL
  AND state IN ('ready', 'running', 'waiting', 'paused')
GROUP BY lane HAVING count(*) > 1;

-- name: check_subscription
-- a subscription has counted all its events that were consumed and skipped
SELECT s.handler FROM onward_subscription s
WHERE s.namespace = :namespace AND (
    s.consumed < (SELECT count(*) FROM onward_delivery d
                  WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
                    AND d.state = 'consumed')
    OR s.skipped < (SELECT count(*) FROM onward_delivery d
                    WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
                      AND d.state = 'skipped'));

-- name: check_input
-- an input counts the deliveries of its events that are pending or reserved
SELECT i.uid FROM onward_input i
WHERE i.namespace = :namespace AND i.open <> (
    SELECT count(*) FROM onward_cause c INDEXED BY onward_cause_input
    CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
        ON d.namespace = c.namespace AND d.event = c.target
    WHERE c.namespace = i.namespace AND c.kind = 'event' AND c.input = i.uid
      AND d.state IN ('pending', 'reserved'));

-- name: check_slot
-- a slot has one disposition, and its schedule has got as far as that unless the slot has a run
SELECT s.schedule FROM onward_slot s
WHERE s.namespace = :namespace AND s.at < s.until AND s.slots > 0 AND EXISTS (
    SELECT 1 FROM onward_slot o
    WHERE o.namespace = s.namespace AND o.schedule = s.schedule AND o.until >= s.at
      AND o.at <= s.until AND o.timing = s.timing AND (o.at <> s.at OR o.until <> s.until)
      AND o.run IS NULL)
UNION ALL
SELECT s.schedule FROM onward_slot s
WHERE s.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM onward_schedule c
    WHERE c.namespace = s.namespace AND c.name = s.schedule
      AND (c.decided_to >= s.until OR s.run IS NOT NULL));
