-- Parts of `commit`: whose runs they are, and how they move.

-- part: me
me AS MATERIALIZED (
    SELECT l.worker FROM (
        SELECT DISTINCT worker COLLATE "C" AS worker FROM unnest(:worker::text[]) w (worker)
        ORDER BY worker) w, LATERAL (
        SELECT worker FROM onward_lease
        WHERE namespace = :namespace::text AND worker = w.worker LIMIT 1 FOR KEY SHARE) l
)

-- part: patience
patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', '2000', true)  -- behind a pooler nothing else sets it
)

-- part: found_owned
found AS (
    SELECT g.uid, coalesce(g.fence, (:fence::bigint[])[1]) AS own_fence,
           coalesce(g.worker, (:worker::text[])[1]) AS own_worker, r.state, r.fence, r.inbox, r.worker,
           false AS refused
    FROM unnest(:run::text::text[], :fence::bigint[], :worker::text[]) g (uid, fence, worker)
    LEFT JOIN LATERAL (
        SELECT state, fence, inbox, worker FROM onward_run
        WHERE namespace = :namespace::text AND uid = g.uid LIMIT 1) r ON true
), own AS (
    SELECT uid FROM found
    WHERE fence = own_fence AND state = 'running' AND worker = own_worker
      AND own_worker IN (SELECT worker FROM me)
)

-- part: given_moves
-- Reads `me` first: leases are locked before runs, so that no two transactions wait for each other.
given AS MATERIALIZED (
    SELECT g.*, coalesce(g.given_worker, (:worker::text[])[1]) AS worker
    FROM patience, (SELECT count(*) FROM me) leases, unnest(
        :run::text::text[], :fence::bigint[], :worker::text[], :state::text::text[], :reason::text[], :due::bigint[],
        :due_in::bigint[], :seq::text::bigint[], :seen::bigint[], :phase::text[],
        :parked_by::text[], :result::bytea[], :error::bytea[], :failed_call::text[],
        :progress::bytea[], :error_type::text::text[], :failed_step::text::text[])
    AS g (uid, fence, given_worker, state, reason, due, due_in, seq, seen, phase, parked_by, result, error,
          failed_call, progress, error_type, failed_step)
)

-- part: nothing_refused
refused AS (
    SELECT NULL::text AS run WHERE false
)

-- part: found
found AS (
    SELECT g.uid, g.state IS NOT NULL AS moves, g.fence AS own_fence, g.worker AS own_worker,
           r.state, r.fence, r.inbox, r.worker, f.run IS NOT NULL AS refused
    FROM given g
    LEFT JOIN LATERAL (
        SELECT state, fence, inbox, worker FROM onward_run
        WHERE namespace = :namespace::text AND uid = g.uid LIMIT 1) r ON true
    LEFT JOIN refused f ON f.run = g.uid
)

-- part: locked
-- The runs that move, those that start others, and those that are sent messages. A run that starts
-- others is locked so that a forced end of it sees either the new run, or that there will be none.
locked AS (
    SELECT r.* FROM (
        SELECT uid FROM given WHERE state IS NOT NULL
        UNION SELECT run FROM child UNION SELECT target FROM message
        ORDER BY uid) k, LATERAL (
        SELECT uid, state, reason, fence, inbox, worker, held_by, coalesce(chain, uid) AS chain
        FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r
)

-- part: locked_with_effects
-- Also the runs that write to the ledger: a forced end of a consumer sees either the effect, or that
-- there will be none, and only then releases its events. Rows of the ledger are locked before runs.
locked AS (
    SELECT r.* FROM (
        SELECT uid FROM given WHERE state IS NOT NULL
        UNION SELECT run FROM child UNION SELECT target FROM message
        UNION SELECT run FROM effect WHERE (SELECT count(*) FROM effect_fits) >= 0
        ORDER BY uid) k, LATERAL (
        SELECT uid, state, reason, fence, inbox, worker, held_by, coalesce(chain, uid) AS chain
        FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r
)

-- part: moved
-- An insert that always meets its row, for it is there and locked: unlike an update it can find the
-- row by nothing but the key, whichever plan was made. Other statements do the same.
moved AS (
    INSERT INTO onward_run AS r (
        namespace, uid, id, kind, name, queue, state, reason, phase, parked_by, due, worker, seq,
        error_type, failed_step, finished_at, created_at, updated_at)
    SELECT :namespace::text, g.uid, '', 'workflow', '', '', g.state, g.reason, g.phase,
           coalesce(g.parked_by, ''),
           CASE WHEN g.state = 'ready' THEN :now ELSE least(g.due, :now + g.due_in) END,
           CASE WHEN g.state = 'running' THEN g.worker END, g.seq,
           g.error_type, g.failed_step,
           CASE WHEN g.state IN ('succeeded', 'failed', 'cancelled', 'timed_out') THEN :now END,
           :now, :now
    FROM given g JOIN locked l ON l.uid = g.uid
    WHERE g.state IS NOT NULL AND l.fence = g.fence AND l.state = 'running'
      AND l.worker = g.worker AND g.worker IN (SELECT worker FROM me)
      AND (g.seen IS NULL OR l.inbox = g.seen) AND g.uid NOT IN (SELECT run FROM refused)
    ON CONFLICT (namespace, uid) DO UPDATE
    SET state = excluded.state, reason = excluded.reason, due = excluded.due,
        phase = coalesce(excluded.phase, r.phase), worker = excluded.worker,
        seq = greatest(r.seq, excluded.seq),
        parked_by = CASE
            WHEN strpos(' ' || r.parked_by || ' ', ' ' || excluded.parked_by || ' ') > 0
            THEN r.parked_by ELSE trim(r.parked_by || ' ' || excluded.parked_by) END,
        crashes = CASE WHEN excluded.state = 'ready' THEN r.crashes ELSE 0 END,
        error_type = excluded.error_type, failed_step = excluded.failed_step,
        held_by = CASE WHEN excluded.finished_at IS NULL THEN r.held_by ELSE '' END,
        finished_at = excluded.finished_at, updated_at = excluded.updated_at
    RETURNING uid, queue, state
)

-- part: own
own AS (
    SELECT uid FROM moved
    UNION ALL
    SELECT f.uid FROM found f LEFT JOIN locked l ON l.uid = f.uid
    WHERE NOT f.moves AND NOT f.refused AND f.own_worker IN (SELECT worker FROM me)
      AND coalesce(l.fence, f.fence) = f.own_fence AND coalesce(l.state, f.state) = 'running'
      AND coalesce(l.worker, f.worker) = f.own_worker
)

-- part: ended
ended AS (
    INSERT INTO onward_run_data AS d (
        namespace, uid, input, args_hash, result, error, failed_call, progress)
    SELECT :namespace::text, g.uid, '', '', g.result, g.error, g.failed_call, g.progress
    FROM given g JOIN moved m ON m.uid = g.uid
    WHERE g.result IS NOT NULL OR g.error IS NOT NULL OR g.failed_call IS NOT NULL
       OR g.progress IS NOT NULL
    ON CONFLICT (namespace, uid) DO UPDATE
    SET result = excluded.result, error = excluded.error, failed_call = excluded.failed_call,
        progress = coalesce(excluded.progress, d.progress)
)

-- part: record
-- A column of one value has it once, in the first row: see `_columns` in batch.py.
record AS (
    INSERT INTO onward_record AS t (
        namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
        payload, error, opened_at, closed_at, args)
    SELECT :namespace::text, h.run, h.identity, coalesce(h.attempt, (:r_attempt::bigint[])[1]),
           h.seq, coalesce(h.kind, (:r_kind::text[])[1]), coalesce(h.name, (:r_name::text[])[1]),
           coalesce(h.state, (:r_state::text[])[1]), h.args_hash, h.version,
           coalesce(h.due, :now + h.due_in), h.message, h.payload, h.error,
           CASE WHEN h.due IS NOT NULL AND h.took > 0 THEN least(:now, h.due - h.took)
                ELSE :now - coalesce(h.took, 0) END,
           CASE WHEN coalesce(h.state, (:r_state::text[])[1]) <> 'open' THEN :now END, h.args
    FROM unnest(
        :r_run::text::text[], :r_identity::text::text[], :r_attempt::bigint[],
        :r_seq::text::bigint[], :r_kind::text[], :r_name::text[], :r_state::text[],
        :r_args_hash::text::text[],
        :r_version::text[], :r_due::bigint[], :r_due_in::bigint[], :r_message::bigint[],
        :r_payload::bytea[], :r_error::bytea[], :r_took::text::bigint[], :r_args::bytea[])
    AS h (run, identity, attempt, seq, kind, name, state, args_hash, version, due, due_in, message,
          payload, error, took, args)
    JOIN own o ON o.uid = h.run
    ON CONFLICT (namespace, run, identity, attempt) DO UPDATE
    SET seq = excluded.seq, state = excluded.state, due = coalesce(excluded.due, t.due),
        message = excluded.message, payload = excluded.payload, error = excluded.error,
        closed_at = excluded.closed_at
    WHERE t.state = 'open'
    RETURNING 1
)
