-- name: send
-- Many messages in one round trip. Rows are locked in one order, every wake of a run is one change of
-- its row, and a message that exists already changes nothing. A message that appeared after the
-- statement began is in neither column, and the caller asks again; so it does when another run has
-- just followed the target.
--
-- A message to a run that is followed goes to the newest run of its id. A signal is delivered once to
-- a chain: to that of the target and, if another run replaced it, to that of the newest. Only the end
-- of a child is for the target alone.
--
-- With `in_turn`, nothing is sent to a run for which the outbox holds messages: they are `behind`.
WITH {patience}, given AS (
    SELECT g.* FROM patience, unnest(
        :target::text[], :message::text[], :kind::text[], :name::text[], :payload::bytea[],
        :wakes::text[], :by_uid::bigint[]) WITH ORDINALITY
    AS g (target, message, kind, name, payload, wakes, by_uid, place)
), aimed AS (
    SELECT g.*, coalesce(t.uid, r.uid) AS uid, coalesce(t.state, r.state) AS state,
           coalesce(t.chain, r.chain) AS chain, i.seq AS there, o.target AS behind
    FROM given g, LATERAL (
        SELECT * FROM (
            SELECT uid, id, newest, state, coalesce(chain, uid) AS chain, 1 AS rank FROM onward_run
            WHERE namespace = :namespace::text AND id = g.target AND newest = 1 AND g.by_uid = 0
            UNION ALL
            SELECT uid, id, newest, state, coalesce(chain, uid) AS chain, 2 AS rank FROM onward_run
            WHERE namespace = :namespace::text AND uid = g.target) x
        ORDER BY rank LIMIT 1) r
    LEFT JOIN LATERAL (
        SELECT uid, state, coalesce(chain, uid) AS chain FROM onward_run
        WHERE namespace = :namespace::text AND id = r.id AND newest = 1
          AND r.newest = 0 AND g.kind <> 'child' LIMIT 1) t ON true
    LEFT JOIN LATERAL (
        SELECT m.seq FROM (VALUES (r.chain), (t.chain)) c (chain), LATERAL (
            SELECT seq FROM onward_inbox
            WHERE namespace = :namespace::text AND chain = c.chain AND message = g.message
              AND (g.kind = 'signal' OR run = coalesce(t.uid, r.uid))
            LIMIT 1) m
        LIMIT 1) i ON true
    LEFT JOIN LATERAL (
        SELECT target FROM onward_outbox
        WHERE namespace = :namespace::text AND target = r.id AND i.seq IS NULL
          AND :in_turn::bigint = 1
        LIMIT 1) o ON true
), fresh AS (
    SELECT DISTINCT ON (uid, message)
           uid AS target, chain, place, message, kind, name, payload, wakes FROM aimed
    WHERE there IS NULL AND behind IS NULL
    ORDER BY uid, message, place
), {post}, locked AS (
    SELECT r.* FROM (SELECT DISTINCT target FROM fresh ORDER BY target) k, LATERAL (
        SELECT uid, state, reason, fence, newest, held_by FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.target LIMIT 1 FOR NO KEY UPDATE) r
), {woken}, {raised}, {inbox}
SELECT g.place, a.uid, coalesce(l.state, a.state), m.seq, a.there, w.queue,
       l.newest = 0 AND g.kind <> 'child' AS followed, a.behind
FROM given g
LEFT JOIN aimed a ON a.place = g.place
LEFT JOIN locked l ON l.uid = a.uid
LEFT JOIN fresh f ON f.place = g.place
LEFT JOIN inbox m ON m.run = a.uid AND m.message = f.message
LEFT JOIN woken w ON w.uid = a.uid
ORDER BY g.place;

-- name: oldest_outbox
-- The sweep locks the first message of each run, and with it all: no other sweep moves the later ones
-- before this one is done. Runs whose first message is locked are left to the sweep that locked it.
--
-- Another sweep may have begun before the first message was committed, and hold the later ones: this
-- one then waits for them. So runs are locked one after the other, by their ids as every sweep does,
-- and nothing is held of a run that comes after the one waited for.
WITH head AS MATERIALIZED (
    SELECT target, min(seq) AS seq FROM (
        SELECT target, seq FROM onward_outbox
        WHERE namespace = :namespace::text ORDER BY seq LIMIT :limit::bigint) o
    GROUP BY target ORDER BY target
)
SELECT o.* FROM head h, LATERAL (
    SELECT target FROM onward_outbox
    WHERE namespace = :namespace::text AND target = h.target AND seq = h.seq
    LIMIT 1 FOR UPDATE SKIP LOCKED) held, LATERAL (
    SELECT seq, target, message, kind, name, payload, wakes FROM onward_outbox
    WHERE namespace = :namespace::text AND target = held.target
    ORDER BY seq LIMIT :limit::bigint FOR UPDATE) o
ORDER BY o.seq LIMIT :limit::bigint;
