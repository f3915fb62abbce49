-- Parts of `commit` and `start`: new runs.

-- part: run_arrays
:c_uid::text::text[], :c_id::text::text[], :c_name::text::text[], :c_input::bytea[],
:c_args_hash::text::text[], :c_kind::text::text[], :c_queue::text::text[], :c_version::text[],
:c_priority::text::bigint[], :c_flow_key::text[], :c_tags::text::text[],
:c_delay_in::text::bigint[], :c_due::bigint[], :c_deadline::bigint[], :c_deadline_in::bigint[],
:c_parent::text[], :c_parent_identity::text[], :c_root::text[],
:c_cancel_with_parent::text::bigint[], :c_follows::text[], :c_link::text[],
:c_attempt::text::bigint[], :c_origin::text[], :c_handler::text[], :c_trace::text[],
:c_retry::text[], :c_attributes::bytea[]

-- part: run_columns
uid, id, name, input, args_hash, kind, queue, version, priority, flow_key, tags, delay_in, due,
deadline, deadline_in, parent, parent_identity, root, cancel_with_parent, follows, link, attempt,
origin, handler, trace, retry, attributes

-- part: given_starts
child AS (
    SELECT * FROM unnest({run_arrays}, :c_run::text[]) AS c ({run_columns}, run)
)

-- part: born
-- A run that is cancelled with a parent that is held is held, too: the row that was locked says so,
-- however late the statement got hold of it.
born AS (
    INSERT INTO onward_run (
        namespace, uid, id, kind, name, version, queue, priority, flow_key, tags, state, reason,
        due, deadline, parent, parent_identity, root, cancel_with_parent, follows, link, attempt,
        origin, handler, held_by, scheduled_at, inbox, created_at, updated_at)
    SELECT :namespace::text, c.uid, id, kind, name, version, queue, priority, flow_key, tags,
           CASE WHEN p.ends THEN 'ready' WHEN h.held_by <> '' THEN 'paused'
                WHEN t.due > :now THEN 'waiting' ELSE 'ready' END,
           CASE WHEN h.held_by <> '' AND NOT p.ends THEN 'operator' END,
           CASE WHEN p.ends THEN least(t.due, :now) WHEN h.held_by = '' THEN t.due END,
           coalesce(deadline, t.due + deadline_in), parent, parent_identity, root,
           cancel_with_parent, follows, link, attempt, origin, handler, h.held_by, t.due, p.n,
           :now, :now
    FROM child c JOIN own o ON o.uid = c.run JOIN locked l ON l.uid = c.run,
         LATERAL (SELECT CASE WHEN c.cancel_with_parent = 1 THEN l.held_by ELSE '' END AS held_by) h,
         LATERAL (SELECT coalesce(c.due, :now) + c.delay_in AS due) t,
         LATERAL (SELECT count(*) AS n,
                         coalesce(bool_or(strpos(wakes, ',unstarted,') > 0), false) AS ends
                  FROM post WHERE target = c.uid) p
    ORDER BY c.id
    ON CONFLICT DO NOTHING
    RETURNING uid, inbox
)

-- part: born_data
born_data AS (
    INSERT INTO onward_run_data (namespace, uid, input, args_hash, trace, retry, attributes, delay)
    SELECT :namespace::text, c.uid, c.input, c.args_hash, c.trace, c.retry, c.attributes,
           CASE WHEN c.due IS NULL THEN nullif(c.delay_in, 0) END
    FROM child c JOIN born USING (uid)
)
