-- Rows of pipelines, many at a time.

-- name: write_events(uid, topic, seq, message, key, payload, run)
INSERT INTO onward_event (namespace, uid, topic, seq, message, key, payload, run, created_at)
VALUES (:namespace, :uid, :topic, :seq, :message, :key, :payload, :run, :now)
ON CONFLICT (namespace, uid) DO UPDATE SET payload = excluded.payload;

-- name: write_inputs(uid, pipeline, source, type, external, title, run)
INSERT INTO onward_input (
    namespace, uid, pipeline, source, type, external, title, run, created_at)
VALUES (:namespace, :uid, :pipeline, :source, :type, :external, :title, :run, :now)
ON CONFLICT DO NOTHING
RETURNING uid;

-- name: write_causes(kind, target, input)
INSERT INTO onward_cause (namespace, kind, target, input)
VALUES (:namespace, :kind, :target, :input)
ON CONFLICT DO NOTHING;
