-- Rows of pipelines, many at a time.

-- name: write_events
INSERT INTO onward_event (namespace, uid, topic, seq, message, key, payload, run, created_at)
SELECT :namespace::text, e.*, :now
FROM unnest(:uid::text[], :topic::text[], :seq::bigint[], :message::text[], :key::text[],
            :payload::bytea[], :run::text[]) AS e
ON CONFLICT (namespace, uid) DO UPDATE SET payload = excluded.payload;

-- name: write_inputs
INSERT INTO onward_input (
    namespace, uid, pipeline, source, type, external, title, run, created_at)
SELECT :namespace::text, i.*, :now
FROM unnest(:uid::text[], :pipeline::text[], :source::text[], :type::text[], :external::text[],
            :title::text[], :run::text[]) AS i (uid, pipeline, source, type, external, title, run)
ORDER BY i.pipeline, i.source, i.type, i.external
ON CONFLICT DO NOTHING
RETURNING uid;

-- name: write_causes
INSERT INTO onward_cause (namespace, kind, target, input)
SELECT :namespace::text, c.* FROM unnest(:kind::text[], :target::text[], :input::text[]) AS c
ON CONFLICT DO NOTHING;
