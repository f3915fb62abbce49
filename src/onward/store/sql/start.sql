-- Starting runs. Both inserts change no existing row, so a caller may make them in a transaction of
-- its own and keep that open without blocking others.

-- part: reserved
-- The id belongs to a run that was deleted.
SELECT 1 FROM onward_tombstone d INDEXED BY onward_tombstone_id
WHERE d.namespace = t.namespace AND d.id = t.id AND d.id IS NOT NULL AND d.until > t.now

-- name: insert_run(uid, id, name, input, args_hash, kind, queue, version, priority, flow_key, tags, delay_in, due, deadline, deadline_in, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler, trace, retry, attributes)
-- A run that is cancelled with its parent is paused if the parent is.
INSERT INTO onward_run (
    namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, reason, due,
    deadline, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler, held_by,
    scheduled_at, created_at, updated_at)
SELECT t.namespace, t.uid, t.id, t.kind, t.name, t.version, t.queue, t.priority, t.flow_key, t.tags,
       CASE WHEN t.held_by <> '' THEN 'paused' WHEN t.due > t.now THEN 'waiting' ELSE 'ready' END,
       CASE WHEN t.held_by <> '' THEN 'operator' END, CASE WHEN t.held_by = '' THEN t.due END,
       coalesce(t.deadline, t.due + t.deadline_in), t.parent, t.parent_identity, t.root,
       t.cancel_with_parent, t.follows, t.link, t.attempt, t.origin, t.handler, t.held_by, t.due,
       t.now, t.now
FROM (SELECT CAST(:namespace AS TEXT) AS namespace, CAST(:uid AS TEXT) AS uid,
             CAST(:id AS TEXT) AS id, CAST(:kind AS TEXT) AS kind, CAST(:name AS TEXT) AS name,
             CAST(:version AS TEXT) AS version, CAST(:queue AS TEXT) AS queue,
             CAST(:priority AS BIGINT) AS priority, CAST(:flow_key AS TEXT) AS flow_key,
             CAST(:tags AS TEXT) AS tags, CAST(:deadline AS BIGINT) AS deadline,
             CAST(:deadline_in AS BIGINT) AS deadline_in, CAST(:parent AS TEXT) AS parent,
             CAST(:parent_identity AS TEXT) AS parent_identity, CAST(:root AS TEXT) AS root,
             CAST(:cancel_with_parent AS BIGINT) AS cancel_with_parent,
             CAST(:follows AS TEXT) AS follows, CAST(:link AS TEXT) AS link,
             CAST(:attempt AS BIGINT) AS attempt, CAST(:origin AS TEXT) AS origin,
             CAST(:handler AS TEXT) AS handler, CAST(:now AS BIGINT) AS now,
             coalesce(CAST(:due AS BIGINT), :now) + CAST(:delay_in AS BIGINT) AS due,
             coalesce((SELECT p.held_by FROM onward_run p
                       WHERE p.namespace = CAST(:namespace AS TEXT)
                         AND p.uid = CAST(:parent AS TEXT) AND CAST(:cancel_with_parent AS BIGINT) = 1),
                      '') AS held_by) t
WHERE true
  AND (t.id = t.uid OR NOT EXISTS ({reserved}))
ON CONFLICT DO NOTHING
RETURNING state, uid;

-- name: insert_run_data(uid, input, args_hash, trace, retry, attributes, delay_in, due)
INSERT INTO onward_run_data (namespace, uid, input, args_hash, trace, retry, attributes, delay)
VALUES (:namespace, :uid, :input, :args_hash, :trace, :retry, :attributes,
        CASE WHEN CAST(:due AS BIGINT) IS NULL THEN nullif(CAST(:delay_in AS BIGINT), 0) END);

-- name: started_run
-- The run that this start made, even if another follows it by now, or else the newest run of the id,
-- or else what is left of one that was deleted (rank 3); with the hash of the arguments that its chain
-- was started with.
SELECT r.uid, r.name,
       coalesce(r.start_hash, (SELECT coalesce(d.start_hash, d.args_hash) FROM onward_run_data d
                               WHERE d.namespace = r.namespace AND d.uid = r.uid)),
       r.state, r.rank
FROM (SELECT namespace, uid, name, state, 1 AS rank, NULL AS start_hash, 0 AS until FROM onward_run
      WHERE namespace = :namespace AND uid = :uid
      UNION ALL
      SELECT namespace, uid, name, state, 2 AS rank, NULL, 0 FROM onward_run
      WHERE namespace = :namespace AND id = :id AND newest = 1
      UNION ALL
      SELECT namespace, uid, name, state, 3 AS rank, start_hash, until
      FROM onward_tombstone INDEXED BY onward_tombstone_id
      WHERE namespace = :namespace AND id = :id AND id IS NOT NULL AND until > :now) r
ORDER BY r.rank, r.until DESC LIMIT 1;
