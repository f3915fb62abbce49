-- What must hold in every database at every moment, for the runs in `:uids`. Each statement returns the
-- ids of what breaks it; the line under its name says what it means. store/invariants.py runs them
-- page by page; rows that belong to no run are checked by check_rows.sql. A lookup is a scalar subquery:
-- a plan for NOT EXISTS that is made while tables are empty may read a whole namespace.

-- part: checked
json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value

-- part: checked_records
json_each(:uids) j
CROSS JOIN onward_record h ON h.namespace = :namespace AND h.run = j.value

-- name: runs_to_check
-- All runs, by pages, each with the number of its rows.
SELECT uid, seq + inbox FROM onward_run WHERE namespace = :namespace AND uid > :after ORDER BY uid LIMIT :limit;

-- name: some_runs_to_check
-- Open runs of each state, those first that wait without a time, and the newest runs.
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run INDEXED BY onward_run_running
    WHERE namespace = :namespace AND state = 'running' LIMIT CAST(:limit AS BIGINT)) a
UNION
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run INDEXED BY onward_run_paused
    WHERE namespace = :namespace AND state = 'paused' LIMIT CAST(:limit AS BIGINT)) b
UNION
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run INDEXED BY onward_run_waiting
    WHERE namespace = :namespace AND state = 'waiting' AND due IS NULL LIMIT CAST(:limit AS BIGINT)) c
UNION
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run INDEXED BY onward_run_waiting
    WHERE namespace = :namespace AND state = 'waiting' AND due > 0
    ORDER BY due LIMIT CAST(:limit AS BIGINT)) d
UNION
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run INDEXED BY onward_run_needs
    WHERE namespace = :namespace AND state = 'ready' AND uid > '' LIMIT CAST(:limit AS BIGINT)) e
UNION
SELECT uid, size FROM (SELECT uid, seq + inbox AS size FROM onward_run
    WHERE namespace = :namespace AND uid > '' ORDER BY uid DESC LIMIT CAST(:limit AS BIGINT)) f
ORDER BY 1;

-- name: check_owner
-- a running run has a worker and a fence, and any other run has no worker
SELECT r.uid FROM {checked}
WHERE (r.state = 'running') <> (r.worker IS NOT NULL AND r.fence > 0);

-- name: check_ready_is_due
-- a ready run was due when it became ready
SELECT r.uid FROM {checked}
WHERE r.state = 'ready' AND r.due > r.updated_at;

-- name: check_end
-- a run has an end time if and only if it has ended
SELECT r.uid FROM {checked}
WHERE (r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out')) <> (r.finished_at IS NOT NULL);

-- name: check_data
-- a run has a data row
SELECT r.uid FROM {checked}
WHERE (SELECT 1 FROM onward_run_data d WHERE d.namespace = r.namespace AND d.uid = r.uid) IS NULL;

-- name: check_newest
-- every id has exactly one newest run
SELECT DISTINCT r.id FROM {checked}
WHERE (SELECT count(*) FROM onward_run n INDEXED BY onward_run_newest
       WHERE n.namespace = r.namespace AND n.id = r.id AND n.newest = 1) <> 1;

-- name: check_limbo
-- every open run has a lease, is claimable, has a due time, waits for something, or is paused
SELECT r.uid FROM {checked}
WHERE r.state = 'paused' AND r.reason IS NULL
   OR r.state = 'waiting' AND r.due IS NULL
      AND (SELECT 1 FROM onward_record h
           WHERE h.namespace = r.namespace AND h.run = r.uid AND h.state = 'open' LIMIT 1) IS NULL;

-- name: check_held
-- no pause holds a run that has ended
SELECT r.uid FROM {checked}
WHERE r.held_by <> '' AND r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out');

-- name: check_record_end
-- a record has a closing time if and only if it is closed, and only a closed record has a position
SELECT h.run FROM {checked_records}
WHERE (h.state = 'open') = (h.closed_at IS NOT NULL) OR h.state = 'open' AND h.seq IS NOT NULL;

-- name: check_clock
-- a clock record has a position
SELECT h.run FROM {checked_records}
WHERE h.kind = 'clock' AND h.seq IS NULL;

-- name: check_positions
-- each position in a history is used once, and there are no gaps
SELECT h.run FROM {checked_records}
WHERE h.seq IS NOT NULL
GROUP BY h.run
HAVING count(*) <> count(DISTINCT h.seq) OR min(h.seq) <> 1 OR max(h.seq) <> count(*);

-- name: check_attempts
-- the attempts of a call are numbered from one without gaps
SELECT h.run FROM {checked_records}
WHERE true
GROUP BY h.run, h.identity HAVING min(h.attempt) <> 1 OR max(h.attempt) <> count(*);

-- name: check_inbox
-- no message has a number above the message count of its run
SELECT i.run FROM {checked}
CROSS JOIN onward_inbox i ON i.namespace = r.namespace AND i.run = r.uid
WHERE i.seq > r.inbox OR i.seq < 1;

-- name: check_message_taken_once
-- a message closes at most one record, and the message exists
SELECT h.run FROM {checked_records}
WHERE h.message IS NOT NULL AND (
    SELECT 1 FROM onward_inbox i
    WHERE i.namespace = h.namespace AND i.run = h.run AND i.seq = h.message) IS NULL
UNION ALL
SELECT h.run FROM {checked_records}
WHERE h.message IS NOT NULL
GROUP BY h.run, h.message HAVING count(*) > 1;

-- name: check_parent
-- the parent of a child exists
SELECT r.uid FROM {checked}
WHERE r.parent IS NOT NULL AND (
    SELECT 1 FROM onward_run p WHERE p.namespace = r.namespace AND p.uid = r.parent) IS NULL;

-- name: check_bound
-- a run with cancel_with_parent has a parent
SELECT r.uid FROM {checked}
WHERE r.cancel_with_parent <> 0 AND r.parent IS NULL;

-- name: check_run_attempt
-- the attempts of a run are counted from one, and only a retry has a higher number
SELECT r.uid FROM {checked}
WHERE r.attempt < 1
   OR r.attempt > 1 AND (r.link IS NULL OR r.link <> 'retry_of' OR r.origin IS NULL);

-- name: check_followed
-- a run that another run follows under the same id has ended, and is not the newest
SELECT r.uid FROM {checked}
WHERE (r.newest <> 0 OR r.state NOT IN ('succeeded', 'failed', 'cancelled', 'timed_out'))
  AND (SELECT 1 FROM onward_run f INDEXED BY onward_run_follows
       WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.follows IS NOT NULL
         AND f.id = r.id LIMIT 1) IS NOT NULL;

-- name: check_tip
-- a run that is not the newest with its id is followed by another run under that id
SELECT r.uid FROM {checked}
WHERE r.newest = 0
  AND (SELECT 1 FROM onward_run f INDEXED BY onward_run_follows
       WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.follows IS NOT NULL
         AND f.id = r.id LIMIT 1) IS NULL;

-- name: check_chain
-- at most one run follows a run, apart from forks
SELECT DISTINCT r.follows FROM {checked}
WHERE r.follows IS NOT NULL AND r.link <> 'forked_from'
  AND (SELECT count(*) FROM onward_run f INDEXED BY onward_run_follows
       WHERE f.namespace = r.namespace AND f.follows = r.follows AND f.follows IS NOT NULL
         AND f.link <> 'forked_from') > 1;

-- name: check_effect
-- a ledger row has a version, and has an attempt if its state says that it was sent
SELECT e.key FROM {checked}
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = r.namespace AND e.run = r.uid AND e.run IS NOT NULL
WHERE e.version < 1
   OR e.state NOT IN ('planned', 'failed', 'skipped', 'withdrawn') AND e.attempt < 1;

-- name: check_effect_planned
-- a run that has ended has no planned effects, because they were withdrawn
SELECT e.key FROM {checked}
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = r.namespace AND e.run = r.uid AND e.run IS NOT NULL
WHERE e.state = 'planned' AND r.state IN ('succeeded', 'failed', 'cancelled', 'timed_out');

-- name: check_delivery_kept
-- a consumer whose effect was or may have been applied keeps its events until it completes
SELECT r.uid FROM {checked}
WHERE r.kind = 'consumer' AND r.newest = 1 AND r.state IN ('failed', 'cancelled', 'timed_out')
  AND (SELECT 1 FROM onward_effect e INDEXED BY onward_effect_run
       WHERE e.namespace = r.namespace AND e.run = r.uid AND e.run IS NOT NULL AND e.state IN (
           'in_flight', 'needs_reconcile', 'indeterminate', 'applied', 'skipped')
       LIMIT 1) IS NOT NULL
  AND (SELECT 1 FROM onward_delivery d INDEXED BY onward_delivery_reserved
       WHERE d.namespace = r.namespace AND d.run = r.uid AND d.state = 'reserved'
       LIMIT 1) IS NULL;
