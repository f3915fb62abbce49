-- Starting runs. Both inserts change no existing row, so a caller may make them in a transaction of
-- its own and keep that open without blocking others.

-- name: insert_run(uid, id, name, input, args_hash, kind, queue, version, priority, flow_key, tags, delay_in, due, deadline, deadline_in, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler, trace, retry, attributes, namespace, now)
-- A run that is cancelled with its parent is paused if the parent is.
INSERT INTO onward_run (
    namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, reason, due,
    deadline, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler, held_by,
    scheduled_at, created_at, updated_at)
SELECT CAST(:namespace AS TEXT), CAST(:uid AS TEXT), CAST(:id AS TEXT), CAST(:kind AS TEXT),
       CAST(:name AS TEXT), CAST(:version AS TEXT), CAST(:queue AS TEXT),
       CAST(:priority AS BIGINT), CAST(:flow_key AS TEXT), CAST(:tags AS TEXT),
       CASE WHEN t.held_by <> '' THEN 'paused' WHEN t.due > t.now THEN 'waiting' ELSE 'ready' END,
       CASE WHEN t.held_by <> '' THEN 'operator' END, CASE WHEN t.held_by = '' THEN t.due END,
       coalesce(CAST(:deadline AS BIGINT), t.due + CAST(:deadline_in AS BIGINT)),
       CAST(:parent AS TEXT), CAST(:parent_identity AS TEXT), CAST(:root AS TEXT),
       CAST(:cancel_with_parent AS BIGINT), CAST(:follows AS TEXT), CAST(:link AS TEXT),
       CAST(:attempt AS BIGINT), CAST(:origin AS TEXT), CAST(:handler AS TEXT), t.held_by, t.due,
       t.now, t.now
FROM (SELECT coalesce(CAST(:due AS BIGINT), :now) + CAST(:delay_in AS BIGINT) AS due,
             CAST(:now AS BIGINT) AS now,
             coalesce((SELECT p.held_by FROM onward_run p
                       WHERE p.namespace = CAST(:namespace AS TEXT)
                         AND p.uid = CAST(:parent AS TEXT) AND CAST(:cancel_with_parent AS BIGINT) = 1),
                      '') AS held_by) t
WHERE true
ON CONFLICT DO NOTHING
RETURNING state;

-- name: insert_run_data(uid, input, args_hash, trace, retry, attributes, delay_in, due, namespace)
INSERT INTO onward_run_data (namespace, uid, input, args_hash, trace, retry, attributes, delay)
VALUES (:namespace, :uid, :input, :args_hash, :trace, :retry, :attributes,
        CASE WHEN CAST(:due AS BIGINT) IS NULL THEN nullif(CAST(:delay_in AS BIGINT), 0) END);

-- name: started_run
-- The run that this start made, even if another follows it by now, or else the newest run of the id;
-- with the hash of the arguments that its chain was started with.
SELECT r.uid, r.name, (SELECT coalesce(d.start_hash, d.args_hash) FROM onward_run_data d
                       WHERE d.namespace = r.namespace AND d.uid = r.uid), r.state, r.rank
FROM (SELECT namespace, uid, name, state, 1 AS rank FROM onward_run
      WHERE namespace = :namespace AND uid = :uid
      UNION ALL
      SELECT namespace, uid, name, state, 2 AS rank FROM onward_run
      WHERE namespace = :namespace AND id = :id AND newest = 1) r
ORDER BY r.rank LIMIT 1;
