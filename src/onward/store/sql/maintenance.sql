-- What workers and operators do to runs beside working on them.

-- name: disown
-- A run in the name of a worker that does not know it: if the worker wrote for it after all, it would
-- find itself lost.
UPDATE onward_run
SET state = 'ready', reason = NULL, due = :now, worker = NULL, fence = fence + 1, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'running' AND worker = :worker
  AND fence = :fence
RETURNING queue;

-- name: forgive_crash
-- A run that was adopted from a worker which turned out to be alive; one that has ended stays as it is.
UPDATE onward_run SET crashes = crashes - 1
WHERE namespace = :namespace AND uid = :uid AND fence = :fence AND crashes > 0
  AND state IN ('ready', 'running', 'waiting', 'paused');

-- name: note_blocked
-- The error of a run that is ended because it blocked its workers; any other end replaces it.
UPDATE onward_run_data SET error = :error
WHERE namespace = :namespace AND uid = :uid AND EXISTS (
    SELECT 1 FROM onward_run r
    WHERE r.namespace = :namespace AND r.uid = :uid AND r.worker = :worker AND r.state = 'running');

-- name: runs_set_ahead
-- Runs that parked, or whose waits were written, at an instant that is still to come: a clock that was
-- ahead wrote it. The time of the run alone does not say so: a message renews that.
SELECT r.uid FROM onward_run r INDEXED BY onward_run_waiting
WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.due > :now AND r.fence > 0
  AND (r.updated_at > :now + :ahead
       OR EXISTS (SELECT 1 FROM onward_record h
                  WHERE h.namespace = :namespace AND h.run = r.uid AND h.seq IS NULL
                    AND h.due > :now AND coalesce(h.closed_at, h.opened_at) > :now + :ahead AND h.name <> 'sleep_until')
       OR EXISTS (SELECT 1 FROM onward_effect e INDEXED BY onward_effect_run
                  WHERE e.namespace = :namespace AND e.run = r.uid AND e.run IS NOT NULL
                    AND e.due > :now AND e.updated_at > :now + :ahead));

-- name: retime_run
-- It is claimed at once, and parks until the earliest of its waits. A worker that has its body in
-- memory, with the old times, finds another fence than it left.
UPDATE onward_run SET due = :now, fence = fence + 1, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'waiting' AND due > :now
RETURNING queue;

-- name: starts_set_ahead
-- Runs that have not begun and start after a delay, but are due later than the delay from now.
SELECT r.uid, d.delay FROM onward_run r INDEXED BY onward_run_waiting
JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.fence = 0
  AND r.due > :now + d.delay + :ahead;

-- name: retime_start
UPDATE onward_run SET due = :now + :delay, scheduled_at = :now + :delay, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'waiting' AND fence = 0
RETURNING queue;

-- name: retime_records
-- What ends at a certain time does so whenever it was set.
UPDATE onward_record
SET due = due - coalesce(closed_at, opened_at) + :now,
    opened_at = opened_at - coalesce(closed_at, opened_at) + :now,
    closed_at = CASE WHEN closed_at IS NOT NULL THEN :now END
WHERE namespace = :namespace AND run = :uid AND seq IS NULL AND due > :now
  AND coalesce(closed_at, opened_at) > :now + :ahead AND name <> 'sleep_until';

-- name: retime_effects
UPDATE onward_effect INDEXED BY onward_effect_run
SET due = due - updated_at + :now, start_by = start_by - updated_at + :now,
    settle_until = settle_until - updated_at + :now,
    known_until = known_until - updated_at + :now, updated_at = :now,
    decided_at = CASE WHEN decided_at = updated_at THEN :now ELSE decided_at END
WHERE namespace = :namespace AND run = :uid AND run IS NOT NULL AND updated_at > :now + :ahead
  AND state NOT IN ('applied', 'skipped');

-- name: diverged_runs
-- Runs that code has parked, and which code it was.
SELECT uid, parked_by, queue, name, version, tags FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused' AND reason = 'divergence';

-- name: unpark_run
UPDATE onward_run SET state = 'ready', reason = NULL, due = :now, updated_at = :now
WHERE namespace = :namespace AND uid = :uid AND state = 'paused' AND reason = 'divergence'
  AND parked_by = :parked_by
RETURNING queue;

-- name: keep_progress
-- The last value may come when its owner has parked the run already. The end of a run has the last one
-- with it, which a write that comes late must not replace.
UPDATE onward_run_data SET progress = :value
WHERE namespace = :namespace AND uid = :uid AND EXISTS (
    SELECT 1 FROM onward_run r
    WHERE r.namespace = :namespace AND r.uid = :uid AND r.fence = :fence
      AND coalesce(r.worker, :worker) = :worker
      AND r.state IN ('ready', 'running', 'waiting', 'paused'))
RETURNING uid;
