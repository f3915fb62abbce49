-- The ledger, as operators read and decide it.

-- part: effect
-- Steps of the clock leave it as long to take effect, to be known and to be due (clock_steps.sql).
e.key, e.run, e.identity, e.name, e.title, e.args, e.args_hash, e.state, e.version, e.attempt, e.asks,
e.approved, e.reconciler, e.tries, e.reach, e.start_by + {added}, e.settle_until + {added},
e.known_until + {added}, e.due + {added}, e.result, e.error, e.verdict, e.decided_by, e.decided_why,
e.decided_at, e.created_at, e.updated_at, e.returns, e.attempts, :now

-- part: added
(SELECT CAST(coalesce(sum(s.step), 0) AS BIGINT) FROM onward_clock_step s
 WHERE s.namespace = :namespace AND s.began_by >= e.updated_at)

-- name: ledger_row
SELECT {effect}
FROM onward_effect e WHERE namespace = :namespace AND key = :key;

-- name: open_effects
-- Effects that are not settled: they wait for an operator, for a due time, or for a worker.
SELECT {effect}
FROM onward_effect e
WHERE e.namespace = :namespace
  AND e.state IN ('planned', 'in_flight', 'needs_reconcile', 'indeterminate')
  AND e.key > :after
ORDER BY e.key LIMIT :limit;

-- name: effects_of_run
SELECT {effect}
FROM onward_effect e INDEXED BY onward_effect_run
WHERE namespace = :namespace AND run = :run AND run IS NOT NULL
ORDER BY created_at, key;

-- name: list_effects
-- All of them, those of the newest runs first: uids sort by time. A page ends before a run and a key.
SELECT {effect}
FROM onward_effect e INDEXED BY onward_effect_run
WHERE namespace = :namespace AND run IS NOT NULL AND (run, key) < (:run, :key)
ORDER BY run DESC, key DESC LIMIT :limit;

-- name: run_of_effect
SELECT run FROM onward_effect WHERE namespace = :namespace AND key = :key;

-- name: effects_between
SELECT {effect}
FROM onward_effect e WHERE namespace = :namespace AND key >= :low AND key <= :high
ORDER BY key LIMIT :limit;

-- name: is_dropped
-- Whether the run was cancelled after it made the call. The record of the cancellation has a position
-- once it was delivered to the code; calls after that belong to the cleanup.
SELECT r.state, (
           EXISTS (SELECT 1 FROM onward_inbox i
                   WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
                     AND i.message = 'cancel' AND i.run = r.uid)
           OR EXISTS (SELECT 1 FROM onward_inbox i
                      WHERE i.namespace = r.namespace AND i.chain = coalesce(r.chain, r.uid)
                        AND i.message = 'deadline' AND i.run = r.uid))
       AND NOT EXISTS (
           SELECT 1 FROM onward_record c
           WHERE c.namespace = r.namespace AND c.run = r.uid AND c.identity = '=cancel'
             AND c.seq <= (SELECT e.asked FROM onward_effect e
                           WHERE e.namespace = r.namespace AND e.key = :key))
FROM onward_run r WHERE r.namespace = :namespace AND r.uid = :uid;

-- name: judge_effect
UPDATE onward_effect
SET state = :state, version = version + 1, attempt = :attempt, asks = :asks, approved = :approved,
    due = :due, result = :result, verdict = :verdict, decided_by = :decided_by,
    decided_why = :decided_why, decided_at = :now, updated_at = :now
WHERE namespace = :namespace AND key = :key AND version = :version
RETURNING version;

-- name: withdraw_planned
-- Effects that a run planned and never sent before it ended.
UPDATE onward_effect INDEXED BY onward_effect_run
SET state = 'withdrawn', version = version + 1, due = NULL, updated_at = :now
WHERE namespace = :namespace AND run = :run AND run IS NOT NULL AND state = 'planned'
RETURNING key;
