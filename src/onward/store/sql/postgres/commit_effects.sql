-- Parts of `commit`: rows of the ledger.

-- part: given_effects
effect AS (
    SELECT * FROM unnest(
        :e_key::text[], :e_run::text[], :e_identity::text[], :e_name::text[], :e_title::text[],
        :e_args::bytea[], :e_args_hash::text[], :e_state::text[], :e_version::bigint[],
        :e_attempt::bigint[], :e_asks::bigint[], :e_approved::bigint[], :e_reconciler::text[],
        :e_tries::bigint[], :e_reach::bigint[], :e_start_by_in::bigint[], :e_settle_in::bigint[],
        :e_known_in::bigint[], :e_due_in::bigint[], :e_result::bytea[], :e_error::bytea[],
        :e_asked::bigint[], :e_returns::text[], :e_attempts::bytea[])
    AS e (key, run, identity, name, title, args, args_hash, state, version, attempt, asks, approved,
          reconciler, tries, reach, start_by_in, settle_in, known_in, due_in, result, error,
          asked, returns, attempts)
), effect_fits AS (
    SELECT e.key, t.version = e.version - 1
           OR t.version = e.version AND t.state = e.state AND t.run = e.run
           AND t.approved = e.approved
           -- What an operator wrote last is never ours, even if it says the same.
           AND t.decided_at IS DISTINCT FROM t.updated_at AS fits
    FROM (SELECT * FROM effect ORDER BY key) e, LATERAL (
        SELECT version, state, run, approved, decided_at, updated_at FROM onward_effect
        WHERE namespace = :namespace::text AND key = e.key LIMIT 1 FOR UPDATE) t
)

-- part: refused
-- A row of the ledger is not as expected, or not there although it is not the first version.
refused AS (
    SELECT e.run FROM effect e LEFT JOIN effect_fits f ON f.key = e.key
    WHERE NOT coalesce(f.fits, e.version = 1)
)

-- part: effect_columns
namespace, key, run, identity, name, title, args, args_hash, state, version, attempt, asks,
approved, reconciler, tries, reach, start_by, settle_until, known_until, due, result, error, asked,
returns, attempts, created_at, updated_at

-- part: effect_values
:namespace::text, e.key, e.run, e.identity, e.name, e.title, e.args, e.args_hash, e.state,
e.version, e.attempt, e.asks, e.approved, e.reconciler, e.tries, e.reach, :now + e.start_by_in,
:now + e.settle_in, :now + e.known_in, :now + e.due_in, e.result, e.error, e.asked,
e.returns, e.attempts, :now, :now

-- part: effects
-- After a definite failure an effect may be tried with other arguments. A row that was not found is inserted without ON CONFLICT: if another owner has written it since,
-- the statement fails with a unique violation and the batch is sent again.
new_effect AS (
    INSERT INTO onward_effect ({effect_columns})
    SELECT {effect_values}
    FROM effect e JOIN own o ON o.uid = e.run LEFT JOIN effect_fits f ON f.key = e.key
    WHERE f.key IS NULL
    ORDER BY e.key
), changed_effect AS (
    INSERT INTO onward_effect AS t ({effect_columns})
    SELECT {effect_values}
    FROM effect e JOIN own o ON o.uid = e.run JOIN effect_fits f ON f.key = e.key
    ON CONFLICT (namespace, key) DO UPDATE
    SET run = excluded.run, state = excluded.state, version = excluded.version,
        title = CASE WHEN t.state IN ('failed', 'withdrawn') THEN excluded.title ELSE t.title END,
        args = CASE WHEN t.state IN ('failed', 'withdrawn') THEN excluded.args ELSE t.args END,
        args_hash = CASE WHEN t.state IN ('failed', 'withdrawn') THEN excluded.args_hash
                         ELSE t.args_hash END,
        attempt = excluded.attempt, asks = excluded.asks, approved = excluded.approved,
        reconciler = excluded.reconciler, tries = excluded.tries, reach = excluded.reach,
        start_by = coalesce(excluded.start_by, t.start_by),
        settle_until = coalesce(excluded.settle_until, t.settle_until),
        known_until = coalesce(t.known_until, excluded.known_until), due = excluded.due,
        result = excluded.result, error = excluded.error, asked = excluded.asked,
        attempts = excluded.attempts, updated_at = excluded.updated_at
    WHERE t.version = excluded.version - 1
)
