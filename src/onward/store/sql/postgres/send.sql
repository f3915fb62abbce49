-- name: send
-- Many messages in one trip. Rows are locked in one order, every wake of a run is one change of
-- its row, and a message that is there already raises nothing.
WITH given AS (
    SELECT * FROM unnest(
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
        SELECT uid, state FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r
), woken AS (
    UPDATE onward_run r
    SET inbox = r.inbox + x.n,
        reason = CASE WHEN r.state = 'running' OR r.state = 'paused' AND strpos(x.stirs, ',' || r.reason || ',') = 0
                      THEN r.reason END,
        due = CASE WHEN r.state = 'waiting' OR r.state = 'paused' AND strpos(x.stirs, ',' || r.reason || ',') > 0
                   THEN :now ELSE r.due END,
        state = CASE WHEN r.state = 'waiting' OR r.state = 'paused' AND strpos(x.stirs, ',' || r.reason || ',') > 0
                     THEN 'ready' ELSE r.state END,
        updated_at = :now
    FROM (SELECT uid, count(*) AS n, string_agg(stirs, '') AS stirs FROM numbered GROUP BY uid) x
    JOIN locked l ON l.uid = x.uid
    WHERE r.namespace = :namespace::text AND r.uid = ANY (ARRAY(SELECT uid FROM locked))
      AND r.uid = x.uid AND l.state IN ('ready', 'running', 'waiting', 'paused')
    RETURNING r.uid, r.queue, r.inbox - x.n AS base
), mail AS (
    INSERT INTO onward_inbox (namespace, run, seq, message, kind, name, payload, sent_at)
    SELECT :namespace::text, n.uid, w.base + n.k, n.message, n.kind, n.name, n.payload, :now
    FROM numbered n JOIN woken w ON w.uid = n.uid
    ON CONFLICT DO NOTHING
    RETURNING run, message, seq
)
SELECT g.place, a.uid, a.state, m.seq, i.seq, w.queue
FROM given g
LEFT JOIN aimed a ON a.place = g.place
LEFT JOIN mail m ON m.run = a.uid AND m.message = g.message
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
