-- How much there is to do. None of it reads what is over.

-- name: queue_depths
-- Per queue: how many runs could be claimed, and since when the oldest of them is due. Those that are
-- ready and those that are about to be are apart.
SELECT queue, 'ready' AS state, count(*) AS runs, min(due) AS oldest
FROM onward_run INDEXED BY onward_run_needs
WHERE namespace = :namespace AND state = 'ready' AND uid > ''
GROUP BY queue
UNION ALL
SELECT queue, 'waiting', count(*), min(due) FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
GROUP BY queue;

-- name: open_counts
-- Those that are ready are counted by queue.
SELECT 'running' AS state, count(*) AS runs FROM onward_run INDEXED BY onward_run_running
WHERE namespace = :namespace AND state = 'running'
UNION ALL
SELECT 'waiting', count(*) FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting'
UNION ALL
SELECT 'paused', count(*) FROM onward_run INDEXED BY onward_run_paused
WHERE namespace = :namespace AND state = 'paused';

-- name: effect_counts
SELECT state, count(*) FROM onward_effect INDEXED BY onward_effect_open
WHERE namespace = :namespace AND state IN ('planned', 'in_flight', 'needs_reconcile', 'indeterminate')
GROUP BY state ORDER BY state;

-- name: store_lags
-- The database's time, how many messages wait in the outbox, and the oldest slot to be decided. A slot
-- that waits for open runs to end is not late.
SELECT :now, (SELECT count(*) FROM onward_outbox WHERE namespace = :namespace),
       (SELECT min(look_at) FROM onward_schedule INDEXED BY onward_schedule_due
        WHERE namespace = :namespace AND state = 'active' AND look_at IS NOT NULL AND look_at <= :now
          AND held IS NULL);
