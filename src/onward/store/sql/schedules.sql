-- Schedules and their slots.

-- part: schedule_columns
name, workflow, input, args_hash, options, cron, every, zone, overlap, catch_up, cap, jitter, anchor,
state, error, decided_to, look_at, held, declared, overrides, version, created_at, updated_at

-- name: insert_schedule
INSERT INTO onward_schedule (
    namespace, name, workflow, input, args_hash, options, cron, every, zone, overlap, catch_up, cap,
    jitter, anchor, state, decided_to, look_at, declared, version, created_at, updated_at)
VALUES (:namespace, :name, :workflow, :input, :args_hash, :options, :cron, :every, :zone, :overlap,
        :catch_up, :cap, :jitter, :anchor, 'active', :decided_to, :look_at, :declared, 1, :now, :now)
ON CONFLICT DO NOTHING
RETURNING name;

-- name: schedule_by_name
SELECT {schedule_columns} FROM onward_schedule WHERE namespace = :namespace AND name = :name;

-- name: all_schedules
SELECT {schedule_columns} FROM onward_schedule WHERE namespace = :namespace ORDER BY name;

-- name: due_schedules
SELECT {schedule_columns} FROM onward_schedule INDEXED BY onward_schedule_due
WHERE namespace = :namespace AND state = 'active' AND look_at IS NOT NULL AND look_at <= :now
ORDER BY look_at, name LIMIT :limit;

-- name: schedules_ahead
-- Schedules that have got further than the clock, which was set back since.
SELECT {schedule_columns} FROM onward_schedule INDEXED BY onward_schedule_decided
WHERE namespace = :namespace AND state <> 'parked' AND decided_to > 0
  AND decided_to > :now + CAST(:tolerated AS BIGINT)
ORDER BY decided_to, name LIMIT :limit;

-- name: lock_schedule
SELECT version FROM onward_schedule WHERE namespace = :namespace AND name = :name FOR UPDATE;

-- name: save_schedule
UPDATE onward_schedule
SET workflow = :workflow, input = :input, args_hash = :args_hash, options = :options, cron = :cron,
    every = :every, zone = :zone, overlap = :overlap, catch_up = :catch_up, cap = :cap,
    jitter = :jitter, anchor = :anchor, state = :state, error = :error, decided_to = :decided_to,
    look_at = :look_at, held = :held, declared = :declared, overrides = :overrides,
    version = version + 1, updated_at = :now
WHERE namespace = :namespace AND name = :name AND version = :version;

-- name: delete_schedule
DELETE FROM onward_schedule WHERE namespace = :namespace AND name = :name RETURNING name;

-- name: delete_slots
DELETE FROM onward_slot WHERE namespace = :namespace AND schedule = :schedule;

-- name: open_runs_of_schedule
-- Of each id only the newest run can be open.
SELECT uid FROM onward_run INDEXED BY onward_run_schedule
WHERE namespace = :namespace AND schedule = :schedule AND schedule IS NOT NULL
  AND state IN ('ready', 'running', 'waiting', 'paused')
ORDER BY uid LIMIT :limit;

-- name: mark_scheduled
UPDATE onward_run SET schedule = :schedule, scheduled_at = :at
WHERE namespace = :namespace AND uid = :uid;

-- name: add_slot
INSERT INTO onward_slot (
    namespace, schedule, at, until, slots, disposition, run, timing, decided_at)
VALUES (:namespace, :schedule, :at, :until, :slots, :disposition, :run, :timing, :now)
ON CONFLICT DO NOTHING;

-- name: take_slot_out
-- A slot that gets a row of its own after all.
UPDATE onward_slot SET slots = slots - 1
WHERE namespace = :namespace AND schedule = :schedule AND until >= :at AND at <= :at AND at < until
  AND timing = :timing AND slots > 0;

-- name: replace_slot
UPDATE onward_slot SET disposition = :disposition, run = :run, decided_at = :now
WHERE namespace = :namespace AND schedule = :schedule AND at = :at AND until = :at
RETURNING at;

-- name: taken_slots
-- Slots that have passed and have no other disposition than a run, from when the clock was ahead.
SELECT at FROM onward_slot
WHERE namespace = :namespace AND schedule = :schedule AND until > :since AND until <= :now
  AND run IS NOT NULL
ORDER BY until;

-- name: undo_slots
-- What was decided before its time; a slot that has a run keeps it.
DELETE FROM onward_slot
WHERE namespace = :namespace AND schedule = :schedule AND until > CAST(:after AS BIGINT)
  AND run IS NULL;

-- name: remove_old_slots
-- Those of long ago, except for the newest of the schedule.
DELETE FROM onward_slot
WHERE namespace = :namespace AND schedule = :schedule AND (until, at) IN (
    SELECT o.until, o.at FROM onward_slot o
    WHERE o.namespace = :namespace AND o.schedule = :schedule
      AND o.until < :now - CAST(:kept AS BIGINT)
      AND o.until < (SELECT n.until FROM onward_slot n
                     WHERE n.namespace = :namespace AND n.schedule = :schedule
                     ORDER BY n.until DESC, n.at DESC LIMIT 1 OFFSET :newest)
    ORDER BY o.until, o.at LIMIT 1000)
RETURNING at;

-- name: newest_slots
SELECT at, until, slots, disposition, run, timing, decided_at FROM onward_slot
WHERE namespace = :namespace AND schedule = :schedule
ORDER BY until DESC, at DESC LIMIT :limit;

-- name: slots_between
SELECT at, until, slots, disposition, run, timing, decided_at FROM onward_slot
WHERE namespace = :namespace AND schedule = :schedule AND until >= :start AND at < :before
ORDER BY until, at;
