-- name: send
-- Many messages in one trip. Rows are locked in one order, every wake of a run is one change of
-- its row, and a message that is there already raises nothing. A message that was not there when
-- the statement began, but is there now, is in neither place: the caller asks again.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', '2000', true)  -- behind a pooler nothing else sets it
), given AS (
    SELECT g.* FROM patience, unnest(
        :target::text[], :message::text[], :kind::text[], :name::text[], :payload::bytea[],
        :stirs::text[]) WITH ORDINALITY
    AS g (target, message, kind, name, payload, stirs, place)
), aimed AS (
    SELECT g.*, r.uid, r.state FROM given g, LATERAL (
        SELECT uid, state FROM (
            SELECT uid, state FROM onward_run
            WHERE namespace = :namespace::text AND uid = g.target
            UNION ALL
            SELECT uid, state FROM onward_run
            WHERE namespace = :namespace::text AND id = g.target AND newest = 1) x
        LIMIT 1) r
), fresh AS (
    SELECT DISTINCT ON (uid, message) uid, place, message, kind, name, payload, stirs FROM aimed a
    WHERE NOT EXISTS (SELECT 1 FROM onward_inbox i
                      WHERE i.namespace = :namespace::text AND i.run = a.uid
                        AND i.message = a.message LIMIT 1)
    ORDER BY uid, message, place
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY uid ORDER BY place) AS k FROM fresh
), locked AS (
    SELECT r.* FROM (SELECT DISTINCT uid FROM fresh ORDER BY uid) k, LATERAL (
        SELECT uid, state, reason, fence FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r
), woken AS (
    UPDATE onward_run r
    SET inbox = r.inbox + x.n,
        state = CASE WHEN r.state = x.asleep THEN 'ready' ELSE r.state END,
        reason = CASE WHEN r.state = x.asleep THEN NULL ELSE r.reason END,
        due = CASE WHEN r.state = x.asleep THEN :now ELSE r.due END,
        updated_at = :now
    FROM (
        -- The state that it is woken from. It is compared with the row's, because the checks of a
        -- table are made on a row as the statement first saw it, too.
        SELECT l.uid, n.n, CASE
                   WHEN l.fence = 0 THEN NULL
                   WHEN l.state = 'waiting' THEN l.state
                   WHEN l.state = 'paused' AND strpos(n.stirs, ',' || l.reason || ',') > 0
                   THEN l.state END AS asleep
        FROM (SELECT uid, count(*) AS n, string_agg(stirs, '') AS stirs
              FROM numbered GROUP BY uid) n
        JOIN locked l ON l.uid = n.uid
        WHERE l.state IN ('ready', 'running', 'waiting', 'paused')) x
    WHERE r.namespace = :namespace::text AND r.uid = ANY (ARRAY(SELECT uid FROM locked))
      AND r.uid = x.uid
    RETURNING r.uid, r.queue, r.inbox - x.n AS base
), mail AS (
    INSERT INTO onward_inbox (namespace, run, seq, message, kind, name, payload, sent_at)
    SELECT :namespace::text, n.uid, w.base + n.k, n.message, n.kind, n.name, n.payload, :now
    FROM numbered n JOIN woken w ON w.uid = n.uid
    ON CONFLICT DO NOTHING
    RETURNING run, message, seq
)
SELECT g.place, a.uid, coalesce(l.state, a.state), m.seq, i.seq, w.queue
FROM given g
LEFT JOIN aimed a ON a.place = g.place
LEFT JOIN locked l ON l.uid = a.uid
LEFT JOIN fresh f ON f.place = g.place
LEFT JOIN mail m ON m.run = a.uid AND m.message = f.message
LEFT JOIN woken w ON w.uid = a.uid
LEFT JOIN LATERAL (
    SELECT seq FROM onward_inbox
    WHERE namespace = :namespace::text AND run = a.uid AND message = g.message LIMIT 1) i ON true
ORDER BY g.place;

-- name: oldest_marks
SELECT message, target, kind, name, payload, stirs FROM onward_mark
WHERE namespace = :namespace ORDER BY message LIMIT :limit::bigint
FOR UPDATE SKIP LOCKED;

-- name: drop_marks
DELETE FROM onward_mark WHERE namespace = :namespace AND message = ANY(:messages::text[]);
