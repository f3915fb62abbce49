-- Steps of the database's clock. A wait on record is as long as it was when its clock is set forward:
-- reads of open records and effects add the steps since they began.

-- name: lock_clock_steps
-- One transaction at a time records steps, or two workers would record the same one.
SELECT value FROM onward_meta WHERE name = 'schema' FOR UPDATE;

-- name: time_and_latest_step
-- In one statement: a worker that read the time, stood still, and then read the number would take a
-- step for its own that another has recorded meanwhile.
SELECT CAST(:now AS BIGINT),
       coalesce((SELECT seq FROM onward_clock_step WHERE namespace = :namespace
                 ORDER BY seq DESC LIMIT 1), 0);

-- name: recorded_steps
-- The number of the latest, and the sum of those after a number.
SELECT coalesce(max(seq), 0),
       CAST(coalesce(sum(CASE WHEN seq > :after THEN step ELSE 0 END), 0) AS BIGINT)
FROM onward_clock_step WHERE namespace = :namespace;

-- name: steps_in_force
-- What steps forward have added and steps back have not taken away again, the newest first.
SELECT began_by, CAST(sum(step) AS BIGINT) FROM onward_clock_step WHERE namespace = :namespace
GROUP BY began_by HAVING sum(step) > 0 ORDER BY max(seq) DESC;

-- name: add_clock_step
INSERT INTO onward_clock_step (namespace, seq, began_by, step)
SELECT CAST(:namespace AS TEXT), coalesce(max(seq), 0) + 1, CAST(:began_by AS BIGINT),
       CAST(:step AS BIGINT)
FROM onward_clock_step WHERE namespace = :namespace;

-- name: renewed_between
-- Whether another worker was alive at a time that a step of the clock would have left out.
SELECT 1 FROM onward_lease
WHERE namespace = :namespace AND worker <> :worker AND renewed_at > :after AND renewed_at < :before
LIMIT 1;

-- name: delay_starts
-- Runs that start after a delay begin that much later.
UPDATE onward_run SET due = due + :step, scheduled_at = scheduled_at + :step, updated_at = :now
WHERE namespace = :namespace AND state = 'waiting' AND fence = 0 AND due > :due_after
  AND created_at <= :began_by
  AND EXISTS (SELECT 1 FROM onward_run_data d
              WHERE d.namespace = onward_run.namespace AND d.uid = onward_run.uid
                AND d.delay IS NOT NULL);

-- name: delay_deadlines
-- One that is so late that it will never come stays: adding to it would overflow.
UPDATE onward_run SET deadline = deadline + :step
WHERE namespace = :namespace AND deadline > :due_after AND deadline < 4611686018427387904
  AND state IN ('ready', 'running', 'waiting', 'paused') AND created_at <= :began_by;

-- name: look_again
-- Runs that parked while more was added are due too late: each is claimed, and parks until the earliest
-- of its waits. Others do the same to no effect: a clock is rarely set back.
UPDATE onward_run SET due = :now, updated_at = :now
WHERE namespace = :namespace AND state = 'waiting' AND fence > 0 AND due > :now;

-- name: replay_again
-- The same where no worker has seen a step: one that has a body in memory, with the old times, finds
-- another fence than it left.
UPDATE onward_run SET due = :now, fence = fence + 1, updated_at = :now
WHERE namespace = :namespace AND state = 'waiting' AND fence > 0 AND due > :now;
