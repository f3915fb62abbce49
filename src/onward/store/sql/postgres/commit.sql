-- name: commit
-- A whole batch of owners' writes in one trip and one commit.
--
-- `me` holds the worker's lease row for key share: renewing it does not wait, taking it over does,
-- so whoever adopts a run sees everything its old owner ever wrote. Attachments are checked before
-- anything is written; a commit whose attachment is not as expected is `refused` whole. Runs that
-- move are changed (`moved`), others are read. Those that start runs are locked nevertheless: whoever
-- ends a run by force sees either its child, or that no child will come. The rest of the statement
-- writes for the runs in `own` alone. No row is changed twice: the folding sees to that. Only runs
-- that were not written are answered, after one row for the batch, which counts the records that
-- were: one that is missing there was written by an earlier try, at another time.
--
-- Rows are looked up by `LATERAL (… LIMIT 1)`, so that the plan, which is made once and while
-- tables may be empty, can only use their primary keys.
WITH me AS MATERIALIZED (
    SELECT worker FROM onward_lease
    WHERE namespace = :namespace::text AND worker = :worker::text
    FOR KEY SHARE
), patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', '2000', true)  -- behind a pooler nothing else sets it
), given AS (
    SELECT g.* FROM patience, unnest(
        :run::text[], :fence::bigint[], :state::text[], :reason::text[], :due::bigint[],
        :due_in::bigint[], :seq::bigint[], :seen::bigint[], :phase::text[], :parked_by::text[],
        :result::bytea[], :error::bytea[], :failed_call::text[])
    AS g (uid, fence, state, reason, due, due_in, seq, seen, phase, parked_by, result, error,
          failed_call)

-- What the attachments expect, locked where it is so.
), effect AS (
    SELECT * FROM unnest(
        :e_key::text[], :e_run::text[], :e_identity::text[], :e_name::text[], :e_title::text[],
        :e_args::bytea[], :e_args_hash::text[], :e_state::text[], :e_version::bigint[],
        :e_attempt::bigint[], :e_asks::bigint[], :e_approved::bigint[], :e_reconciles::bigint[],
        :e_tries::bigint[], :e_reach::bigint[], :e_start_by_in::bigint[], :e_settle_in::bigint[],
        :e_known_in::bigint[], :e_due_in::bigint[], :e_result::bytea[], :e_error::bytea[],
        :e_asked::bigint[])
    AS e (key, run, identity, name, title, args, args_hash, state, version, attempt, asks, approved,
          reconciles, tries, reach, start_by_in, settle_in, known_in, due_in, result, error,
          asked)
), effect_fits AS (
    SELECT e.key, t.version = e.version - 1
           OR t.version = e.version AND t.state = e.state AND t.run = e.run
           -- What an operator wrote last is never ours, even if it says the same.
           AND t.decided_at IS DISTINCT FROM t.updated_at AS fits
    FROM (SELECT * FROM effect ORDER BY key) e, LATERAL (
        SELECT version, state, run, decided_at, updated_at FROM onward_effect
        WHERE namespace = :namespace::text AND key = e.key LIMIT 1 FOR UPDATE) t
), delivery AS (
    SELECT * FROM unnest(
        :d_handler::text[], :d_event::text[], :d_was::text[], :d_becomes::text[],
        :d_reason::text[], :d_run::text[])
    AS d (handler, event, was, becomes, reason, run)
), delivery_fits AS (
    SELECT d.handler, d.event, t.state = d.was AND (d.was = 'pending' OR t.run = d.run)
           OR t.state = d.becomes AND t.run = d.run AS fits
    FROM (SELECT * FROM delivery ORDER BY handler, event) d, LATERAL (
        SELECT state, run FROM onward_delivery
        WHERE namespace = :namespace::text AND handler = d.handler AND event = d.event
        LIMIT 1 FOR UPDATE) t
), saved AS (
    SELECT * FROM unnest(
        :h_handler::text[], :h_key::text[], :h_version::bigint[], :h_state::bytea[],
        :h_wake_at::bigint[], :h_run::text[])
    AS s (handler, key, version, state, wake_at, run)
), saved_fits AS (
    SELECT s.handler, s.key, t.state_version = s.version - 1
           OR t.state_version = s.version AND t.saved_by = s.run AS fits
    FROM (SELECT * FROM saved ORDER BY handler, key) s, LATERAL (
        SELECT state_version, saved_by FROM onward_handler
        WHERE namespace = :namespace::text AND handler = s.handler AND key = s.key
        LIMIT 1 FOR UPDATE) t
), refused AS (
    -- Not as expected, or not there although it is not the first of its kind.
    SELECT e.run FROM effect e LEFT JOIN effect_fits f ON f.key = e.key
    WHERE NOT coalesce(f.fits, e.version = 1)
    UNION
    SELECT d.run FROM delivery d
    LEFT JOIN delivery_fits f ON f.handler = d.handler AND f.event = d.event
    WHERE NOT coalesce(f.fits, false)
    UNION
    SELECT s.run FROM saved s LEFT JOIN saved_fits f ON f.handler = s.handler AND f.key = s.key
    WHERE NOT coalesce(f.fits, s.version = 1)

-- The runs themselves.
), message AS (
    SELECT * FROM unnest(
        :m_target::text[], :m_message::text[], :m_kind::text[], :m_name::text[],
        :m_payload::bytea[], :m_wakes::text[], :m_run::text[]) WITH ORDINALITY
    AS m (target, message, kind, name, payload, wakes, run, place)
), child AS (
    SELECT * FROM unnest(
        :c_uid::text[], :c_id::text[], :c_name::text[], :c_input::bytea[], :c_args_hash::text[],
        :c_kind::text[], :c_queue::text[], :c_version::text[], :c_priority::bigint[],
        :c_flow_key::text[], :c_tags::text[], :c_delay_in::bigint[], :c_due::bigint[],
        :c_deadline::bigint[], :c_deadline_in::bigint[], :c_parent::text[],
        :c_parent_identity::text[], :c_root::text[], :c_cancel_with_parent::bigint[], :c_follows::text[],
        :c_link::text[], :c_attempt::bigint[], :c_origin::text[], :c_handler::text[],
        :c_trace::text[], :c_retry::text[], :c_attributes::bytea[], :c_run::text[])
    AS c (uid, id, name, input, args_hash, kind, queue, version, priority, flow_key, tags, delay_in,
          due, deadline, deadline_in, parent, parent_identity, root, cancel_with_parent, follows, link, attempt,
          origin, handler, trace, retry, attributes, run)
), found AS (
    SELECT g.uid, g.state IS NOT NULL AS moves, g.fence AS own_fence, r.state, r.fence, r.inbox,
           f.run IS NOT NULL AS refused
    FROM given g
    LEFT JOIN LATERAL (
        SELECT state, fence, inbox FROM onward_run
        WHERE namespace = :namespace::text AND uid = g.uid LIMIT 1) r ON true
    LEFT JOIN refused f ON f.run = g.uid
), locked AS (
    SELECT r.* FROM (
        SELECT uid FROM given WHERE state IS NOT NULL
        UNION SELECT run FROM child UNION SELECT target FROM message
        ORDER BY uid) k, LATERAL (
        SELECT uid, state, reason, fence, inbox, held_by, coalesce(chain, uid) AS chain
        FROM onward_run
        WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r
), moved AS (
    -- Here and below: an insert that always meets its row, for it is there and locked. Unlike an
    -- update it can find it by no other way than the key, however the plan was made.
    INSERT INTO onward_run AS r (
        namespace, uid, id, kind, name, queue, state, reason, phase, parked_by, due, worker, seq,
        finished_at, created_at, updated_at)
    SELECT :namespace::text, g.uid, '', 'workflow', '', '', g.state, g.reason, g.phase,
           coalesce(g.parked_by, ''),
           CASE WHEN g.state = 'ready' THEN :now ELSE least(g.due, :now + g.due_in) END,
           CASE WHEN g.state = 'running' THEN :worker::text END, g.seq,
           CASE WHEN g.state IN ('succeeded', 'failed', 'cancelled', 'timed_out') THEN :now END,
           :now, :now
    FROM given g JOIN locked l ON l.uid = g.uid, me
    WHERE g.state IS NOT NULL AND l.fence = g.fence AND l.state = 'running'
      AND (g.seen IS NULL OR l.inbox = g.seen) AND g.uid NOT IN (SELECT run FROM refused)
    ON CONFLICT (namespace, uid) DO UPDATE
    SET state = excluded.state, reason = excluded.reason, due = excluded.due,
        phase = coalesce(excluded.phase, r.phase), worker = excluded.worker,
        seq = greatest(r.seq, excluded.seq),
        parked_by = CASE
            WHEN strpos(' ' || r.parked_by || ' ', ' ' || excluded.parked_by || ' ') > 0
            THEN r.parked_by ELSE trim(r.parked_by || ' ' || excluded.parked_by) END,
        crashes = CASE WHEN excluded.state = 'ready' THEN r.crashes ELSE 0 END,
        held_by = CASE WHEN excluded.finished_at IS NULL THEN r.held_by ELSE '' END,
        finished_at = excluded.finished_at, updated_at = excluded.updated_at
    RETURNING uid, queue, state
), own AS (
    SELECT uid FROM moved
    UNION ALL
    SELECT f.uid FROM found f LEFT JOIN locked l ON l.uid = f.uid, me
    WHERE NOT f.moves AND NOT f.refused AND coalesce(l.fence, f.fence) = f.own_fence
      AND coalesce(l.state, f.state) = 'running'
), ended AS (
    INSERT INTO onward_run_data (namespace, uid, input, args_hash, result, error, failed_call)
    SELECT :namespace::text, g.uid, '', '', g.result, g.error, g.failed_call
    FROM given g JOIN moved m ON m.uid = g.uid
    WHERE g.result IS NOT NULL OR g.error IS NOT NULL OR g.failed_call IS NOT NULL
    ON CONFLICT (namespace, uid) DO UPDATE
    SET result = excluded.result, error = excluded.error, failed_call = excluded.failed_call

-- Their histories.
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

-- Whom they wake. A message that is there already, as when the reply was lost, raises nothing.
), post AS (
    SELECT m.*, row_number() OVER (PARTITION BY m.target ORDER BY m.place) AS k,
           count(*) OVER (PARTITION BY m.target) AS n
    FROM (
        SELECT DISTINCT ON (m.target, m.message) m.*, coalesce(l.chain, m.target) AS chain
        FROM message m JOIN own o ON o.uid = m.run LEFT JOIN locked l ON l.uid = m.target
        LEFT JOIN LATERAL (
            SELECT seq FROM onward_inbox
            WHERE namespace = :namespace::text AND chain = coalesce(l.chain, m.target)
              AND message = m.message AND run = m.target
            LIMIT 1) i ON true
        WHERE i.seq IS NULL
        ORDER BY m.target, m.message, m.place) m
), woken AS (
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

-- Whom they start. A run that is cancelled with a parent that is held is held, too: the row that
-- was locked says so, however late the statement got hold of it.
), born AS (
    INSERT INTO onward_run (
        namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, reason,
        due, deadline, parent, parent_identity, root, cancel_with_parent, follows, link, attempt, origin,
        handler, held_by, scheduled_at, inbox, created_at, updated_at)
    SELECT :namespace::text, c.uid, id, kind, name, version, queue, priority, flow_key, tags,
           CASE WHEN p.ends THEN 'ready' WHEN h.held_by <> '' THEN 'paused'
                WHEN t.due > :now THEN 'waiting' ELSE 'ready' END,
           CASE WHEN h.held_by <> '' AND NOT p.ends THEN 'operator' END,
           CASE WHEN p.ends THEN least(t.due, :now) WHEN h.held_by = '' THEN t.due END,
           coalesce(deadline, t.due + deadline_in), parent, parent_identity, root, cancel_with_parent, follows,
           link, attempt, origin, handler, h.held_by, t.due, p.n, :now, :now
    FROM child c JOIN own o ON o.uid = c.run JOIN locked l ON l.uid = c.run,
         LATERAL (SELECT CASE WHEN c.cancel_with_parent = 1 THEN l.held_by ELSE '' END AS held_by) h,
         LATERAL (SELECT coalesce(c.due, :now) + c.delay_in AS due) t,
         LATERAL (SELECT count(*) AS n,
                         coalesce(bool_or(strpos(wakes, ',unstarted,') > 0), false) AS ends
                  FROM post WHERE target = c.uid) p
    ORDER BY c.id
    ON CONFLICT DO NOTHING
    RETURNING uid, inbox
), born_data AS (
    INSERT INTO onward_run_data (namespace, uid, input, args_hash, trace, retry, attributes, delay)
    SELECT :namespace::text, c.uid, c.input, c.args_hash, c.trace, c.retry, c.attributes,
           CASE WHEN c.due IS NULL THEN nullif(c.delay_in, 0) END
    FROM child c JOIN born USING (uid)
), mail AS (
    INSERT INTO onward_inbox (namespace, run, seq, chain, message, kind, name, payload, sent_at)
    SELECT :namespace::text, p.target, w.inbox - p.n + p.k, p.chain, p.message, p.kind, p.name,
           p.payload, :now
    FROM post p
    JOIN (SELECT uid, inbox FROM woken UNION ALL SELECT uid, inbox FROM born) w ON w.uid = p.target
    ON CONFLICT DO NOTHING

-- Their ledger rows and attachments.
), ledger AS (
    INSERT INTO onward_effect AS t (
        namespace, key, run, identity, name, title, args, args_hash, state, version, attempt, asks,
        approved, reconciles, tries, reach, start_by, settle_until, known_until, due, result, error,
        asked, created_at, updated_at)
    SELECT :namespace::text, e.key, e.run, e.identity, e.name, e.title, e.args, e.args_hash, e.state,
           e.version, e.attempt, e.asks, e.approved, e.reconciles, e.tries, e.reach,
           :now + e.start_by_in, :now + e.settle_in, :now + e.known_in, :now + e.due_in, e.result,
           e.error, e.asked, :now, :now
    FROM effect e JOIN own o ON o.uid = e.run
    ON CONFLICT (namespace, key) DO UPDATE
    SET run = excluded.run, state = excluded.state, version = excluded.version,
        attempt = excluded.attempt, asks = excluded.asks, approved = excluded.approved,
        reconciles = excluded.reconciles, tries = excluded.tries, reach = excluded.reach,
        start_by = coalesce(excluded.start_by, t.start_by),
        settle_until = coalesce(excluded.settle_until, t.settle_until),
        known_until = coalesce(t.known_until, excluded.known_until), due = excluded.due,
        result = excluded.result, error = excluded.error, asked = excluded.asked,
        updated_at = excluded.updated_at
    WHERE t.version = excluded.version - 1
    RETURNING key
), passed AS (
    INSERT INTO onward_delivery AS t (namespace, handler, event, state, run, reason, updated_at)
    SELECT :namespace::text, d.handler, d.event, d.becomes,
           CASE WHEN d.becomes <> 'pending' THEN d.run END, d.reason, :now
    FROM delivery d JOIN own o ON o.uid = d.run
    ON CONFLICT (namespace, handler, event) DO UPDATE
    SET state = excluded.state, run = excluded.run, reason = excluded.reason,
        attempt = t.attempt + (t.state = 'reserved' AND excluded.state = 'pending')::int,
        updated_at = excluded.updated_at
    WHERE t.state <> excluded.state
    RETURNING handler, state
), event AS (
    INSERT INTO onward_event (namespace, uid, topic, message, key, payload, run, created_at)
    SELECT :namespace::text, p.uid, p.topic, p.message, p.key, p.payload, p.run, :now
    FROM unnest(:p_uid::text[], :p_topic::text[], :p_message::text[], :p_payload::bytea[],
                :p_key::text[], :p_run::text[])
    AS p (uid, topic, message, payload, key, run) JOIN own o ON o.uid = p.run
    ORDER BY p.topic, p.message
    ON CONFLICT DO NOTHING
    RETURNING uid, topic, key
), spread AS (
    INSERT INTO onward_delivery (namespace, handler, event, key, state, updated_at)
    SELECT :namespace::text, s.handler, e.uid, e.key, 'pending', :now
    FROM event e, LATERAL (
        SELECT handler FROM onward_subscription
        WHERE namespace = :namespace::text AND topic = e.topic OFFSET 0) s
    RETURNING handler
), stirred AS (
    SELECT handler, '' AS key, count(*) AS n FROM (
        SELECT handler FROM spread
        UNION ALL SELECT handler FROM passed WHERE state = 'pending') x
    GROUP BY handler
), mine AS (
    SELECT s.* FROM saved s JOIN own o ON o.uid = s.run
), handler AS (
    INSERT INTO onward_handler AS t (
        namespace, handler, key, state, state_version, saved_by, wake_at, published, updated_at)
    SELECT :namespace::text, handler, key, m.state, coalesce(m.version, 0), m.run, m.wake_at,
           coalesce(x.n, 0), :now
    FROM mine m FULL JOIN stirred x USING (handler, key)
    ORDER BY handler, key
    ON CONFLICT (namespace, handler, key) DO UPDATE
    SET state = CASE WHEN excluded.saved_by IS NULL THEN t.state ELSE excluded.state END,
        state_version = greatest(t.state_version, excluded.state_version),
        saved_by = coalesce(excluded.saved_by, t.saved_by),
        wake_at = CASE WHEN excluded.saved_by IS NULL THEN t.wake_at ELSE excluded.wake_at END,
        published = t.published + excluded.published,
        updated_at = excluded.updated_at
    WHERE excluded.saved_by IS NULL OR t.state_version = excluded.state_version - 1
    RETURNING handler, key, saved_by

-- Two may think that they are the first to write a row. The second gives up, and looks again.
), second AS (
    SELECT e.run FROM effect e JOIN own o ON o.uid = e.run
    LEFT JOIN effect_fits f ON f.key = e.key LEFT JOIN ledger l ON l.key = e.key
    WHERE f.key IS NULL AND l.key IS NULL
    UNION ALL
    SELECT m.run FROM mine m
    LEFT JOIN saved_fits f ON f.handler = m.handler AND f.key = m.key
    LEFT JOIN handler h ON h.handler = m.handler AND h.key = m.key
    WHERE f.key IS NULL AND h.saved_by IS DISTINCT FROM m.run
)
SELECT NULL AS uid, NULL AS state, NULL AS fence, NULL AS inbox, false AS refused,
       EXISTS (SELECT 1 FROM me) AS here,
       (SELECT array_agg(DISTINCT queue) FROM (
           SELECT queue, state FROM woken UNION ALL SELECT queue, state FROM moved) x
        WHERE x.state = 'ready') AS queues,
       :now / (CASE WHEN EXISTS (SELECT 1 FROM second) THEN 0 ELSE 1 END) AS at,
       (SELECT count(*) FROM record) AS recorded
UNION ALL
SELECT f.uid, f.state, f.fence, f.inbox, f.refused, EXISTS (SELECT 1 FROM me), NULL, :now, 0
FROM found f WHERE NOT EXISTS (SELECT 1 FROM own o WHERE o.uid = f.uid);
