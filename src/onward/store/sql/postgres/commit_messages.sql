-- Parts of `commit` and `send`: messages, and the runs that they wake.

-- part: given_messages
message AS (
    SELECT * FROM unnest(
        :m_target::text[], :m_message::text[], :m_kind::text[], :m_name::text[],
        :m_payload::bytea[], :m_wakes::text[], :m_run::text[]) WITH ORDINALITY
    AS m (target, message, kind, name, payload, wakes, run, place)
)

-- part: fresh
-- A message that exists already, as after a lost reply, changes nothing.
fresh AS (
    SELECT DISTINCT ON (m.target, m.message) m.target, coalesce(l.chain, m.target) AS chain,
           m.message, m.kind, m.name, m.payload, m.wakes, m.place
    FROM message m JOIN own o ON o.uid = m.run LEFT JOIN locked l ON l.uid = m.target
    LEFT JOIN LATERAL (
        SELECT seq FROM onward_inbox
        WHERE namespace = :namespace::text AND chain = coalesce(l.chain, m.target)
          AND message = m.message AND run = m.target
        LIMIT 1) i ON true
    WHERE i.seq IS NULL
    ORDER BY m.target, m.message, m.place
)

-- part: post
post AS (
    SELECT *, row_number() OVER (PARTITION BY target ORDER BY place) AS k,
           count(*) OVER (PARTITION BY target) AS n
    FROM fresh
)

-- part: woken
-- Every wake of a run is one change of its row. The rules are those of core.run; see `raise_inbox`.
woken AS (
    INSERT INTO onward_run AS r (
        namespace, uid, id, kind, name, queue, state, due, inbox, held_by, created_at, updated_at)
    SELECT :namespace::text, l.uid, '', 'workflow', '', '',
           CASE WHEN (l.fence > 0 OR strpos(p.wakes, ',unstarted,') > 0) AND (
                    l.state = 'waiting'
                    OR l.state = 'paused' AND strpos(p.wakes, ',' || l.reason || ',') > 0)
                THEN 'ready' ELSE 'paused' END, :now, p.n,
           CASE WHEN strpos(p.wakes, ',unstarted,') > 0 THEN '' ELSE l.held_by END, :now, :now
    FROM (SELECT target, count(*) AS n, string_agg(wakes, '') AS wakes FROM post GROUP BY target) p
    JOIN locked l ON l.uid = p.target
    WHERE l.state IN ('ready', 'running', 'waiting', 'paused')
    ON CONFLICT (namespace, uid) DO UPDATE
    SET inbox = r.inbox + excluded.inbox,
        state = CASE WHEN excluded.state = 'ready' THEN 'ready' ELSE r.state END,
        reason = CASE WHEN excluded.state = 'ready' THEN NULL ELSE r.reason END,
        due = CASE WHEN excluded.state = 'ready' THEN excluded.due ELSE r.due END,
        held_by = excluded.held_by,
        updated_at = CASE WHEN excluded.state = 'ready' THEN excluded.updated_at ELSE r.updated_at END
    RETURNING uid, inbox, queue, state
)

-- part: raised
raised AS (
    SELECT uid, inbox FROM woken
)

-- part: raised_and_born
raised AS (
    SELECT uid, inbox FROM woken UNION ALL SELECT uid, inbox FROM born
)

-- part: inbox
inbox AS (
    INSERT INTO onward_inbox (namespace, run, seq, chain, message, kind, name, payload, sent_at)
    SELECT :namespace::text, p.target, w.inbox - p.n + p.k, p.chain, p.message, p.kind, p.name,
           p.payload, :now
    FROM post p JOIN raised w ON w.uid = p.target
    ON CONFLICT DO NOTHING
    RETURNING run, message, seq
)
