-- Inputs, and what happened because of them.

-- part: input_columns
uid, pipeline, source, type, external, title, run, open, events, skipped_at, skipped_by, skipped_why,
created_at

-- part: input_matches
-- An input is pending until every event that it has caused is settled, and as long as there is none.
  AND (CAST(:source AS TEXT) IS NULL OR source = CAST(:source AS TEXT))
  AND (CAST(:text AS TEXT) IS NULL OR instr(title, CAST(:text AS TEXT)) > 0 OR instr(external, CAST(:text AS TEXT)) > 0)
  AND (CAST(:state AS TEXT) IS NULL
       OR CAST(:state AS TEXT) = CASE WHEN skipped_at IS NOT NULL THEN 'skipped'
                        WHEN open > 0 OR events = 0 THEN 'pending' ELSE 'done' END)
  AND (CAST(:before AS BIGINT) IS NULL OR created_at < CAST(:before AS BIGINT))

-- name: list_inputs
SELECT {input_columns} FROM onward_input
WHERE namespace = :namespace
{input_matches}
ORDER BY uid DESC LIMIT :limit;

-- name: list_inputs_of_pipeline
SELECT {input_columns} FROM onward_input INDEXED BY onward_input_newest
WHERE namespace = :namespace AND pipeline = :pipeline
{input_matches}
ORDER BY created_at DESC, uid DESC LIMIT :limit;

-- name: list_open_inputs
-- Few inputs are pending, among many that are done.
SELECT {input_columns} FROM onward_input INDEXED BY onward_input_open
WHERE namespace = :namespace AND skipped_at IS NULL AND (open > 0 OR events = 0)
  AND (CAST(:pipeline AS TEXT) IS NULL OR pipeline = CAST(:pipeline AS TEXT))
{input_matches}
ORDER BY uid DESC LIMIT :limit;

-- name: input_by_uid
SELECT {input_columns} FROM onward_input WHERE namespace = :namespace AND uid = :uid;

-- name: input_kinds
SELECT pipeline, source, type, registered, skipped FROM onward_input_count
WHERE namespace = :namespace AND (CAST(:pipeline AS TEXT) IS NULL OR pipeline = CAST(:pipeline AS TEXT))
ORDER BY pipeline, source, type;

-- name: pending_inputs
-- How many inputs of a kind are pending, and how many of them since long: uids rise with time.
SELECT pipeline, source, type, count(*), sum(CASE WHEN uid < CAST(:before AS TEXT) THEN 1 ELSE 0 END)
FROM onward_input INDEXED BY onward_input_open
WHERE namespace = :namespace AND skipped_at IS NULL AND (open > 0 OR events = 0)
  AND (CAST(:pipeline AS TEXT) IS NULL OR pipeline = CAST(:pipeline AS TEXT))
GROUP BY pipeline, source, type;

-- name: caused_by_input
SELECT target FROM onward_cause INDEXED BY onward_cause_input
WHERE namespace = :namespace AND input = :input AND kind = :kind AND target > :after
ORDER BY target LIMIT :limit;

-- name: effects_of_runs
SELECT {effect} FROM json_each(:runs) u
CROSS JOIN onward_effect e INDEXED BY onward_effect_run
    ON e.namespace = :namespace AND e.run = u.value AND e.run IS NOT NULL
WHERE e.state <> 'withdrawn'
ORDER BY e.created_at, e.key;

-- name: causes_of_events
SELECT c.target, c.input FROM json_each(:events) u
CROSS JOIN onward_cause c ON c.namespace = :namespace AND c.kind = 'event' AND c.target = u.value
WHERE true
ORDER BY c.target, c.input;

-- name: mark_input_skipped
UPDATE onward_input SET skipped_at = :now, skipped_by = :by, skipped_why = :why
WHERE namespace = :namespace AND uid = :uid AND skipped_at IS NULL
RETURNING pipeline, source, type;

-- name: count_skipped_inputs
UPDATE onward_input_count SET skipped = skipped + :count
WHERE namespace = :namespace AND pipeline = :pipeline AND source = :source AND type = :type;
