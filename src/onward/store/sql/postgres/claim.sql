-- part: claimable
-- One round trip: delete expired leases (the rules are in core/lease.py), pick what may be claimed by
-- short index scans, and assign it to this worker. The runs of a worker whose lease is deleted here are
-- seen by the next claim, because all parts of a statement see one snapshot. Without a lease a worker
-- claims nothing. Suspects are claimed separately, few at a time, and in one claim only those with the
-- same number of crashes. Runs under flow control are chosen beforehand (flow.sql), unless they are
-- running already: adopting one does not make them more. Runs that should be under it are left alone.
--
-- `vanished` is computed before a run is locked, and runs are locked by the name of their worker: a
-- lock is taken on the newest version of a row, for which a NOT EXISTS would not be evaluated again,
-- so a run that another claim has just adopted would be taken from its new owner.
WITH RECURSIVE me AS MATERIALIZED (
    SELECT worker, length, renewed_at, steady_since FROM onward_lease
    WHERE namespace = :namespace AND worker = :worker
    FOR KEY SHARE
), ahead AS (
    UPDATE onward_lease SET renewed_at = :now, steady_since = :now
    WHERE (namespace, worker) IN (
        SELECT namespace, worker FROM onward_lease
        WHERE namespace = :namespace AND renewed_at > :now + :ahead::bigint AND worker <> :worker
        FOR NO KEY UPDATE SKIP LOCKED)
), gone AS (
    DELETE FROM onward_lease WHERE (namespace, worker) IN (
        SELECT l.namespace, l.worker FROM onward_lease l, me
        WHERE l.namespace = :namespace AND l.worker <> :worker
          AND me.renewed_at <= :now AND (:now - me.renewed_at) * :gaps::bigint <= me.length
          AND :now - me.steady_since >= greatest(me.length, l.length)
          AND :now - l.renewed_at > greatest(me.length, l.length)
        FOR UPDATE OF l SKIP LOCKED)
), restricting AS MATERIALIZED (
    SELECT kind, name, paused FROM onward_flow WHERE namespace = :namespace AND {restricts}
), ready AS (
    SELECT r.uid, r.priority, r.rank, r.due, q.queue, r.name
    FROM unnest(:queues::text[]) q (queue), LATERAL (
        SELECT uid, priority, {rank} AS rank, due, name FROM onward_run
        WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL AND queue = q.queue
          AND crashes < :suspect_at::bigint
          AND {offered}
        ORDER BY priority DESC, {rank}, due LIMIT :limit::bigint
        FOR UPDATE SKIP LOCKED) r
), due AS (
    SELECT uid, priority, {rank} AS rank, due, queue, name FROM onward_run
    WHERE namespace = :namespace AND state = 'waiting' AND due <= :now AND due <= :latest::bigint
      AND flow_key IS NULL
      AND crashes < :suspect_at::bigint
      AND queue = ANY(:queues::text[]) AND {offered}
    ORDER BY due LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
), owner AS (
    -- Every worker that has runs, one step down the index each.
    (SELECT worker FROM onward_run WHERE namespace = :namespace AND state = 'running'
     ORDER BY worker LIMIT 1)
    UNION ALL
    SELECT n.worker FROM owner o, LATERAL (
        SELECT worker FROM onward_run
        WHERE namespace = :namespace AND state = 'running' AND worker > o.worker
        ORDER BY worker LIMIT 1) n
), vanished AS MATERIALIZED (
    SELECT worker FROM owner o
    WHERE NOT EXISTS (SELECT 1 FROM onward_lease l
                      WHERE l.namespace = :namespace AND l.worker = o.worker)
), orphan AS (
    SELECT r.uid, r.priority, v.worker, r.queue, r.name FROM vanished v, LATERAL (
        SELECT uid, priority, queue, name FROM onward_run
        WHERE namespace = :namespace AND state = 'running' AND worker = v.worker
          AND crashes + 1 < :suspect_at::bigint
          AND queue = ANY(:queues::text[]) AND {offered}
        LIMIT :limit::bigint
        FOR UPDATE SKIP LOCKED) r
), suspects AS (
    -- Those that will have so many crashes once they are claimed.
    SELECT s.uid, s.priority, s.worker, l.place, s.queue, s.name
    FROM unnest(:crashes::bigint[], :rooms::bigint[]) WITH ORDINALITY l (crashes, room, place),
    LATERAL (
        SELECT uid, priority, CASE WHEN state = 'running' THEN worker END AS worker, queue, name
        FROM onward_run
        WHERE namespace = :namespace AND crashes > 0 AND state IN ('ready', 'running', 'waiting')
          AND least(crashes + (state = 'running')::int, :max_crashes::bigint) = l.crashes
          AND (flow_key IS NULL AND (state = 'ready' OR state = 'waiting' AND due <= least(:now, :latest::bigint))
               OR state = 'running' AND worker = ANY (ARRAY(SELECT worker FROM vanished)))
          AND queue = ANY(:queues::text[]) AND {offered}
        LIMIT l.room
        FOR UPDATE SKIP LOCKED) s
), limited AS (
    SELECT r.uid, l.priority, l.place, l.due FROM unnest(
        :limited_uid::text[], :limited_priority::bigint[], :limited_place::bigint[],
        :limited_due::bigint[]) l (uid, priority, place, due),
    LATERAL (
        SELECT uid FROM onward_run
        WHERE namespace = :namespace AND uid = l.uid AND state = 'ready' LIMIT 1
        FOR UPDATE SKIP LOCKED) r
), free AS (
    SELECT uid, priority, due, row_number() OVER (PARTITION BY priority ORDER BY rank, due) AS place
    FROM (SELECT * FROM ready UNION ALL SELECT * FROM due) f
    WHERE NOT EXISTS (SELECT 1 FROM restricting c WHERE c.kind = 'queue' AND c.name = f.queue
                                                     OR c.kind = 'workflow' AND c.name = f.name)
), adopted AS (
    SELECT uid, priority, worker FROM (
        SELECT uid, priority, worker, queue, name FROM orphan
        UNION ALL
        SELECT uid, priority, worker, queue, name FROM suspects
        WHERE place = (SELECT min(place) FROM suspects)) a
    WHERE NOT EXISTS (SELECT 1 FROM restricting c
                      WHERE (c.paused = 1 OR a.worker IS NULL)
                        AND (c.kind = 'queue' AND c.name = a.queue
                             OR c.kind = 'workflow' AND c.name = a.name))
), found AS (
    SELECT uid, priority, place, due, taken_from FROM (
        SELECT uid, priority, place, due, NULL::text AS taken_from FROM free
        UNION ALL SELECT uid, priority, place, due, NULL FROM limited
        UNION ALL SELECT uid, priority, 0, 0, worker FROM adopted) c, me
    ORDER BY priority DESC, place, due LIMIT :limit::bigint
)

-- part: claiming
taken AS (
    -- An insert that always meets its row: see `moved` in commit_runs.sql.
    INSERT INTO onward_run AS r (
        namespace, uid, id, kind, name, queue, state, worker, created_at, updated_at)
    SELECT :namespace, uid, '', 'workflow', '', '', 'running', :worker, :now, :now FROM picked
    ON CONFLICT (namespace, uid) DO UPDATE
    SET state = 'running', reason = NULL, worker = excluded.worker, fence = r.fence + 1,
        crashes = r.crashes + (r.state = 'running')::int, due = NULL,
        holds = CASE WHEN r.uid = ANY(:holding::text[]) THEN 1 ELSE r.holds END,
        started_at = coalesce(r.started_at, excluded.updated_at), updated_at = excluded.updated_at
    RETURNING uid, id, kind, name, version, queue, fence, inbox, seq, crashes, deadline, parent,
              parent_identity, root, cancel_with_parent, follows, link, attempt, origin, handler, handler_key, phase,
              scheduled_at, created_at, started_at, priority, tags, held_by
)
SELECT t.*, d.input, d.args_hash, d.trace, d.retry, d.attributes, d.beginning,
       :now AS claimed_at, p.due AS ready_at, p.taken_from, p.is_cut
FROM picked p JOIN taken t ON t.uid = p.uid LEFT JOIN LATERAL (
    SELECT input, args_hash, trace, retry, attributes, beginning FROM onward_run_data
    WHERE namespace = :namespace AND uid = p.uid LIMIT 1) d ON true
ORDER BY p.priority DESC, p.place, p.due

-- name: claim
{claimable}, picked AS (
    SELECT *, false AS is_cut FROM found
), {claiming};

-- name: claim_sized
-- The first that are together no larger than is wanted, at least one. The length of a payload is read
-- without the payload.
{claimable}, picked AS (
    SELECT uid, priority, place, due, taken_from, all_bytes > :max_bytes::bigint AS is_cut FROM (
        SELECT f.*, d.size, sum(d.size) OVER () AS all_bytes, sum(d.size) OVER (
                   ORDER BY priority DESC, place, due ROWS UNBOUNDED PRECEDING) AS total
        FROM found f, LATERAL (
            SELECT :row_bytes::bigint + coalesce(sum(
                       octet_length(input) + coalesce(octet_length(attributes), 0)), 0) AS size
            FROM onward_run_data WHERE namespace = :namespace AND uid = f.uid) d) m
    WHERE total <= :max_bytes::bigint OR total = size
), {claiming};
