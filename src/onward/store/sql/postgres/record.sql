-- name: record
-- The commonest batch: runs that only add records. The same rules as `commit`, whose arrays for
-- everything else would cost four times as much as the write itself when a lone step is recorded.
-- Only runs that were not written are answered, after one row for the batch, which counts the records
-- that were: one that is missing there was written by an earlier try, at another time.
WITH me AS MATERIALIZED (
    SELECT worker FROM onward_lease
    WHERE namespace = :namespace::text AND worker = :worker::text
    FOR KEY SHARE
), found AS (
    SELECT g.uid, g.fence AS own_fence, r.state, r.fence, r.inbox
    FROM unnest(:run::text[], :fence::bigint[]) g (uid, fence)
    LEFT JOIN LATERAL (
        SELECT state, fence, inbox FROM onward_run
        WHERE namespace = :namespace::text AND uid = g.uid LIMIT 1) r ON true
), own AS (
    SELECT uid FROM found, me WHERE fence = own_fence AND state = 'running'
), record AS (
    INSERT INTO onward_record AS t (
        namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, due, message,
        payload, error, opened_at, closed_at)
    SELECT :namespace::text, h.run, h.identity, h.attempt, h.seq, h.kind, h.name, h.state,
           h.args_hash, h.version, coalesce(h.due, :now + h.due_in), h.message, h.payload, h.error,
           :now, CASE WHEN h.state <> 'open' THEN :now END
    FROM unnest(
        :r_run::text[], :r_identity::text[], :r_attempt::bigint[], :r_seq::bigint[],
        :r_kind::text[], :r_name::text[], :r_state::text[], :r_args_hash::text[],
        :r_version::text[], :r_due::bigint[], :r_due_in::bigint[], :r_message::bigint[],
        :r_payload::bytea[], :r_error::bytea[])
    AS h (run, identity, attempt, seq, kind, name, state, args_hash, version, due, due_in, message,
          payload, error)
    JOIN own o ON o.uid = h.run
    ON CONFLICT (namespace, run, identity, attempt) DO UPDATE
    SET seq = excluded.seq, state = excluded.state, due = coalesce(excluded.due, t.due),
        message = excluded.message, payload = excluded.payload, error = excluded.error,
        closed_at = excluded.closed_at
    WHERE t.state = 'open'
    RETURNING 1
)
SELECT NULL AS uid, NULL AS state, NULL AS fence, NULL AS inbox, false AS refused,
       EXISTS (SELECT 1 FROM me) AS here, NULL::text[] AS queues, :now AS at,
       (SELECT count(*) FROM record) AS recorded
UNION ALL
SELECT f.uid, f.state, f.fence, f.inbox, false, EXISTS (SELECT 1 FROM me), NULL, :now, 0
FROM found f WHERE NOT EXISTS (SELECT 1 FROM own o WHERE o.uid = f.uid);
