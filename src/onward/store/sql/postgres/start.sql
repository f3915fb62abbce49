-- name: start
-- Many starts in one round trip. A run that exists already is not changed; the answer has either: see
-- `started_run`. A run that appeared between the snapshot and the insert is in neither, and the caller
-- asks again. The only long wait could be for a caller's open transaction that has started a run of
-- the same id: the lock timeout ends it soon.
--
-- An owner starts runs on behalf of a run that it has. Its lease and that run are locked, so that a
-- takeover or a forced end of the run sees either what was started, or that nothing will be.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', '100', true)
), given AS (
    SELECT g.* FROM patience, unnest(
        {run_arrays}, :owner_worker::text[], :owner_run::text[], :owner_fence::bigint[])
    WITH ORDINALITY AS g ({run_columns}, owner_worker, owner_run, owner_fence, nth)
), lease AS MATERIALIZED (
    SELECT l.worker FROM (
        SELECT DISTINCT owner_worker COLLATE "C" AS worker FROM given WHERE owner_worker IS NOT NULL
        ORDER BY worker) k, LATERAL (
        SELECT worker FROM onward_lease
        WHERE namespace = :namespace::text AND worker = k.worker LIMIT 1 FOR KEY SHARE) l
), parent AS MATERIALIZED (
    -- Locked, so that a takeover, end or pause of the parent sees this child, or this sees that.
    SELECT r.* FROM (
        SELECT owner_run AS uid FROM given WHERE owner_run IS NOT NULL
        UNION SELECT parent FROM given WHERE parent IS NOT NULL AND cancel_with_parent = 1
        ORDER BY uid) k, LATERAL (
        SELECT uid, state, fence, worker, held_by FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR SHARE) r
), lost AS (
    SELECT g.uid FROM given g
    LEFT JOIN lease l ON l.worker = g.owner_worker LEFT JOIN parent p ON p.uid = g.owner_run
    WHERE g.owner_run IS NOT NULL AND NOT coalesce(
        l.worker IS NOT NULL AND p.state = 'running' AND p.fence = g.owner_fence
        AND p.worker = g.owner_worker, false)
), made AS (
    INSERT INTO onward_run (
        namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, due,
        deadline, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler,
        reason, held_by, scheduled_at, created_at, updated_at)
    SELECT :namespace::text, g.uid, id, kind, name, version, queue, priority, flow_key, tags,
           CASE WHEN p.held_by <> '' THEN 'paused'
                WHEN coalesce(due, :now) + delay_in > :now THEN 'waiting' ELSE 'ready' END,
           CASE WHEN coalesce(p.held_by, '') = '' THEN coalesce(due, :now) + delay_in END,
           coalesce(deadline, coalesce(due, :now) + delay_in + deadline_in), parent,
           parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler,
           CASE WHEN p.held_by <> '' THEN 'operator' END, coalesce(p.held_by, ''),
           coalesce(due, :now) + delay_in, :now, :now
    FROM given g LEFT JOIN parent p ON p.uid = g.parent AND g.cancel_with_parent = 1
    LEFT JOIN LATERAL ( -- its id belongs to a run that was deleted
        SELECT 1 AS is_reserved FROM onward_tombstone
        WHERE namespace = :namespace::text AND id = g.id AND id IS NOT NULL AND until > :now
          AND g.id <> g.uid LIMIT 1) t ON true
    WHERE g.uid NOT IN (SELECT uid FROM lost) AND t.is_reserved IS NULL
    ORDER BY g.id, g.nth -- of two starts of one id the first makes the run
    ON CONFLICT DO NOTHING
    RETURNING uid, state
), data AS (
    INSERT INTO onward_run_data (namespace, uid, input, args_hash, trace, retry, attributes, delay)
    SELECT :namespace::text, g.uid, g.input, g.args_hash, g.trace, g.retry, g.attributes,
           CASE WHEN g.due IS NULL THEN nullif(g.delay_in, 0) END
    FROM given g JOIN made m ON m.uid = g.uid
)
SELECT g.uid, CASE WHEN n.uid IS NOT NULL THEN g.owner_run END, m.state, r.uid, r.name,
       coalesce(r.start_hash, d.start_hash), r.state, r.rank
FROM given g
LEFT JOIN lost n ON n.uid = g.uid
LEFT JOIN made m ON m.uid = g.uid
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT uid, name, state, 1 AS rank, NULL AS start_hash, 0 AS until FROM onward_run
        WHERE namespace = :namespace::text AND uid = g.uid
        UNION ALL
        SELECT uid, name, state, 2 AS rank, NULL, 0 FROM onward_run
        WHERE namespace = :namespace::text AND id = g.id AND newest = 1
        UNION ALL
        SELECT uid, name, state, 3 AS rank, start_hash, until FROM onward_tombstone
        WHERE namespace = :namespace::text AND id = g.id AND id IS NOT NULL AND until > :now) x
    WHERE m.uid IS NULL
    ORDER BY rank, until DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (
    SELECT coalesce(start_hash, args_hash) AS start_hash FROM onward_run_data
    WHERE namespace = :namespace::text AND uid = r.uid LIMIT 1) d ON true;
