-- What a worker may claim, and what it asks beside its claims.

-- part: offered
-- The run needs what the worker offers: the code by its name and version, and one of its tags.
name IN (SELECT value FROM json_each(:names))
AND (version IS NULL OR version = CAST(:version AS TEXT))
AND (tags = '' OR EXISTS (
    SELECT 1 FROM json_each(:tags) t WHERE instr(' ' || tags || ' ', ' ' || t.value || ' ') > 0))

-- name: next_due
-- The next due time, the next deadline, the next slot of a schedule, the next start that a rate
-- allows, and the next time at which a consumer wakes.
SELECT (SELECT due FROM onward_run
        WHERE namespace = :namespace AND state = 'waiting' AND due > :since
        ORDER BY due LIMIT 1),
       (SELECT deadline FROM onward_run INDEXED BY onward_run_deadline
        WHERE namespace = :namespace AND deadline IS NOT NULL AND deadline > :since
          AND state IN ('ready', 'running', 'waiting', 'paused')
        ORDER BY deadline LIMIT 1),
       (SELECT look_at FROM onward_schedule INDEXED BY onward_schedule_due
        WHERE namespace = :namespace AND state = 'active' AND look_at IS NOT NULL
          AND look_at > :since
        ORDER BY look_at LIMIT 1),
       (SELECT next_at FROM onward_flow INDEXED BY onward_flow_next
        WHERE namespace = :namespace AND next_at IS NOT NULL AND next_at > :since
        ORDER BY next_at LIMIT 1),
       (SELECT wake_at FROM onward_handler INDEXED BY onward_handler_wake
        WHERE namespace = :namespace AND wake_at IS NOT NULL AND wake_at > :since AND removed = 0
        ORDER BY wake_at LIMIT 1);

-- name: restricting_flows
-- The queues and workflows that are limited or paused.
SELECT kind, name, paused FROM onward_flow INDEXED BY onward_flow_restricting
WHERE namespace = :namespace AND {restricts};

-- name: maintenance_due
-- The time, the number of the latest step of the clock, and whether callers wrote messages or events,
-- runs under flow control that could be claimed or that should be under it, runs past their deadline
-- (see `overdue_runs`), schedules to look at, and an order that the worker drains.
SELECT :now,
       coalesce((SELECT seq FROM onward_clock_step WHERE namespace = :namespace
                 ORDER BY seq DESC LIMIT 1), 0),
       EXISTS (SELECT 1 FROM onward_outbox WHERE namespace = :namespace)
       OR EXISTS (SELECT 1 FROM onward_unpublished WHERE namespace = :namespace),
       EXISTS (SELECT 1 FROM onward_run INDEXED BY onward_run_flow
               WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL)
       OR EXISTS (SELECT 1 FROM onward_run INDEXED BY onward_run_flow_due
                  WHERE namespace = :namespace AND state = 'waiting' AND flow_key IS NOT NULL
                    AND due <= :now)
       OR EXISTS (SELECT 1 FROM onward_flow INDEXED BY onward_flow_restricting
                  WHERE namespace = :namespace AND {restricts})
          AND (EXISTS (SELECT 1 FROM onward_run INDEXED BY onward_run_ready
                       WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL)
               OR EXISTS (SELECT 1 FROM onward_run
                          WHERE namespace = :namespace AND state = 'waiting' AND due <= :now)),
       EXISTS (SELECT 1 FROM onward_run r INDEXED BY onward_run_deadline
               WHERE namespace = :namespace AND deadline IS NOT NULL AND deadline <= :now
                 AND state IN ('ready', 'running', 'waiting', 'paused')
                 AND (SELECT i.seq FROM onward_inbox i
                      WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
                        AND i.message = 'deadline' AND i.run = r.uid) IS NULL),
       EXISTS (SELECT 1 FROM onward_schedule INDEXED BY onward_schedule_due
               WHERE namespace = :namespace AND state = 'active' AND look_at IS NOT NULL
                 AND look_at <= :now)
       OR EXISTS (SELECT 1 FROM onward_schedule INDEXED BY onward_schedule_decided
                  WHERE namespace = :namespace AND state <> 'parked' AND decided_to > 0
                    AND decided_to > :now + CAST(:tolerated AS BIGINT)),
       EXISTS (SELECT 1 FROM onward_worker
               WHERE namespace = :namespace AND worker = :worker AND draining = 1);

-- name: runs_of_worker
SELECT uid, fence FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND worker = :worker AND state = 'running';
