-- Parts of `commit`: deliveries, events and the states of handlers.

-- part: given_deliveries
delivery AS (
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
)

-- part: given_states
saved AS (
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
)

-- part: refused
-- An attachment is not as expected, or not there although it is not the first of its kind.
refused AS (
    SELECT e.run FROM effect e LEFT JOIN effect_fits f ON f.key = e.key
    WHERE NOT coalesce(f.fits, e.version = 1)
    UNION
    SELECT d.run FROM delivery d
    LEFT JOIN delivery_fits f ON f.handler = d.handler AND f.event = d.event
    WHERE NOT coalesce(f.fits, false)
    UNION
    SELECT s.run FROM saved s LEFT JOIN saved_fits f ON f.handler = s.handler AND f.key = s.key
    WHERE NOT coalesce(f.fits, s.version = 1)
)

-- part: deliveries
passed AS (
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
)

-- part: events
event AS (
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
)

-- part: handlers
-- The states that handlers saved, and the count of what each has been given to do. A state that was
-- not found is inserted without ON CONFLICT: see `effects`.
added_work AS (
    SELECT handler, '' AS key, count(*) AS n FROM (
        SELECT handler FROM spread
        UNION ALL SELECT handler FROM passed WHERE state = 'pending') x
    GROUP BY handler
), changed_handler AS (
    SELECT handler, key, m.state, coalesce(m.version, 0) AS version, m.run, m.wake_at,
           coalesce(x.n, 0) AS n, m.run IS NOT NULL AND f.key IS NULL AS is_new
    FROM (SELECT s.* FROM saved s JOIN own o ON o.uid = s.run) m
    FULL JOIN added_work x USING (handler, key) LEFT JOIN saved_fits f USING (handler, key)
), new_handler AS (
    INSERT INTO onward_handler (
        namespace, handler, key, state, state_version, saved_by, wake_at, published, updated_at)
    SELECT :namespace::text, handler, key, state, version, run, wake_at, n, :now
    FROM changed_handler WHERE is_new ORDER BY handler, key
), handler AS (
    INSERT INTO onward_handler AS t (
        namespace, handler, key, state, state_version, saved_by, wake_at, published, updated_at)
    SELECT :namespace::text, handler, key, state, version, run, wake_at, n, :now
    FROM changed_handler WHERE NOT is_new ORDER BY handler, key
    ON CONFLICT (namespace, handler, key) DO UPDATE
    SET state = CASE WHEN excluded.saved_by IS NULL THEN t.state ELSE excluded.state END,
        state_version = greatest(t.state_version, excluded.state_version),
        saved_by = coalesce(excluded.saved_by, t.saved_by),
        wake_at = CASE WHEN excluded.saved_by IS NULL THEN t.wake_at ELSE excluded.wake_at END,
        published = t.published + excluded.published,
        updated_at = excluded.updated_at
    WHERE excluded.saved_by IS NULL OR t.state_version = excluded.state_version - 1
)
