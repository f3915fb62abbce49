-- The writes of owners on SQLite, in the writer's transaction: first what is there, then, for the
-- commits that the rules let pass, part by part, all rows of a part at once. Postgres does all of it in one statement.

-- name: runs_seen
SELECT r.uid, r.state, r.fence, r.inbox, r.worker, r.queue
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value;

-- name: unexpected_runs
-- The runs that are not running under the fences and workers of their commits, which are one text
-- each: none, in most batches.
SELECT j.key, r.state, r.fence, r.inbox, r.worker
FROM json_each(:owners) j
LEFT JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.key
WHERE (r.state = 'running' AND r.fence || ' ' || r.worker = j.value) IS NOT true;

-- name: move_run(uid, state, reason, due, due_in, seq, seen, phase, parked_by, error_type, failed_step)
UPDATE onward_run AS r
SET state = :state,
    reason = :reason,
    due = CASE WHEN :state = 'ready' THEN :now
               WHEN :due IS NULL THEN :now + :due_in
               WHEN :due_in IS NULL THEN :due
               ELSE min(:due, :now + :due_in) END,
    seq = max(r.seq, :seq),
    crashes = CASE WHEN :state = 'ready' THEN r.crashes ELSE 0 END,
    phase = coalesce(:phase, r.phase),
    parked_by = CASE WHEN :parked_by IS NULL
                       OR instr(' ' || r.parked_by || ' ', ' ' || :parked_by || ' ') > 0
                     THEN r.parked_by ELSE trim(r.parked_by || ' ' || :parked_by) END,
    error_type = :error_type,
    failed_step = :failed_step,
    worker = CASE WHEN :state = 'running' THEN r.worker END,
    finished_at = CASE WHEN :state IN ('succeeded', 'failed', 'cancelled', 'timed_out') THEN :now END,
    held_by = CASE WHEN :state IN ('succeeded', 'failed', 'cancelled', 'timed_out') THEN ''
                   ELSE r.held_by END,
    updated_at = :now
WHERE r.namespace = :namespace AND r.uid = :uid AND (:seen IS NULL OR r.inbox = :seen);

-- name: add_record(run, identity, attempt, seq, kind, name, state, args_hash, version, due, due_in, message, payload, error, took, args)
-- An open record is closed by a later write of the same attempt; a closed one never changes.
INSERT INTO onward_record AS r (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
    payload, error, opened_at, closed_at, args)
VALUES (:namespace, :run, :identity, :attempt, :seq, :kind, :name, :state, :args_hash, :version,
        coalesce(:due, :now + :due_in), :message, :payload, :error,
        CASE WHEN :due IS NOT NULL AND :took > 0 THEN min(:now, :due - :took) ELSE :now - :took END,
        CASE WHEN :state <> 'open' THEN :now END, :args)
ON CONFLICT (namespace, run, identity, attempt) DO UPDATE
SET seq = excluded.seq, state = excluded.state, due = coalesce(excluded.due, r.due),
    message = excluded.message, payload = excluded.payload, error = excluded.error,
    closed_at = excluded.closed_at
WHERE r.state = 'open';

-- name: write_effect(key, run, identity, name, title, args, args_hash, state, version, attempt, asks, approved, reconciler, tries, reach, start_by_in, settle_in, known_in, due_in, result, error, asked, returns, attempts)
INSERT INTO onward_effect AS e (
    namespace, key, run, identity, name, title, args, args_hash, state, version, attempt, asks,
    approved, reconciler, tries, reach, start_by, settle_until, known_until, due, result, error,
    asked, returns, attempts, created_at, updated_at)
VALUES (:namespace, :key, :run, :identity, :name, :title, :args, :args_hash, :state, :version,
        :attempt, :asks, :approved, :reconciler, :tries, :reach, :now + :start_by_in,
        :now + :settle_in, :now + :known_in, :now + :due_in, :result, :error, :asked,
        :returns, :attempts, :now, :now)
ON CONFLICT (namespace, key) DO UPDATE
SET run = excluded.run, state = excluded.state, version = excluded.version,
    title = CASE WHEN e.state IN ('failed', 'withdrawn') THEN excluded.title ELSE e.title END,
    args = CASE WHEN e.state IN ('failed', 'withdrawn') THEN excluded.args ELSE e.args END,
    args_hash = CASE WHEN e.state IN ('failed', 'withdrawn') THEN excluded.args_hash
                     ELSE e.args_hash END,
    attempt = excluded.attempt, asks = excluded.asks, approved = excluded.approved,
    reconciler = excluded.reconciler, tries = excluded.tries, reach = excluded.reach,
    start_by = coalesce(excluded.start_by, e.start_by),
    settle_until = coalesce(excluded.settle_until, e.settle_until),
    known_until = coalesce(e.known_until, excluded.known_until), due = excluded.due,
    result = excluded.result, error = excluded.error, asked = excluded.asked,
    attempts = excluded.attempts, updated_at = excluded.updated_at
WHERE e.version = excluded.version - 1;

-- name: cache_result(key, step, version, payload, length, run)
INSERT INTO onward_cache (namespace, key, step, version, run, payload, created_at, expires_at)
VALUES (:namespace, :key, :step, :version, :run, :payload, :now, :now + :length)
ON CONFLICT (namespace, key) DO UPDATE
SET step = excluded.step, version = excluded.version, run = excluded.run,
    payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at;
