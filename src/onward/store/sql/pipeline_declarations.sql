-- Pipelines as code declares them.

-- name: declaration_of_pipeline
SELECT declared FROM onward_pipeline WHERE namespace = :namespace AND name = :name;

-- name: declare_pipeline
INSERT INTO onward_pipeline AS p (namespace, name, parallel, queue, declared, updated_at)
VALUES (:namespace, :name, :parallel, :queue, :declared, :now)
ON CONFLICT (namespace, name) DO UPDATE
SET parallel = excluded.parallel, queue = excluded.queue, declared = excluded.declared,
    updated_at = excluded.updated_at;

-- name: declare_topic
-- The pipeline that declares a topic sets its limits; one that only uses it makes sure that it exists.
INSERT INTO onward_topic AS t (namespace, name, pipeline, max_pending, max_age, created_at)
VALUES (:namespace, :topic, :pipeline, :max_pending, :max_age, :now)
ON CONFLICT (namespace, name) DO UPDATE
SET pipeline = excluded.pipeline, max_pending = excluded.max_pending, max_age = excluded.max_age
WHERE excluded.pipeline <> '';

-- name: handlers_of_pipeline
SELECT handler FROM onward_handler INDEXED BY onward_handler_pipeline
WHERE namespace = :namespace AND pipeline = :pipeline AND key = '' AND removed = 0
ORDER BY handler;

-- name: declare_handler
INSERT INTO onward_handler AS h (
    namespace, handler, key, pipeline, kind, queue, lane, publishes, updated_at)
VALUES (:namespace, :handler, '', :pipeline, :kind, :queue, :lane, :publishes, :now)
ON CONFLICT (namespace, handler, key) DO UPDATE
SET pipeline = excluded.pipeline, kind = excluded.kind, queue = excluded.queue,
    lane = excluded.lane, publishes = excluded.publishes, removed = 0,
    updated_at = excluded.updated_at;

-- name: declare_handler_keys
UPDATE onward_handler
SET pipeline = :pipeline, queue = :queue, removed = 0, updated_at = :now,
    lane = CASE WHEN CAST(:parallel AS BIGINT) = 1 THEN handler || ' ' || key ELSE :pipeline END
WHERE namespace = :namespace AND handler = :handler AND key <> '';

-- name: remove_handler
-- What is pending for it stays, for operators to see.
UPDATE onward_handler SET removed = 1, updated_at = :now
WHERE namespace = :namespace AND handler = :handler;

-- name: cancel_launched
-- Runs of a removed handler that have not begun. No code may be left that could take them, and they would
-- keep their lanes from all others. One that follows another may hold events, and stays.
UPDATE onward_run INDEXED BY onward_run_handler
SET state = 'cancelled', reason = 'replaced', due = NULL, fence = fence + 1, finished_at = :now,
    updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND handler IS NOT NULL AND fence = 0
  AND follows IS NULL AND state IN ('ready', 'waiting');

-- name: subscriptions_of
SELECT topic, keyed FROM onward_subscription INDEXED BY onward_subscription_handler
WHERE namespace = :namespace AND handler = :handler ORDER BY topic;

-- name: unsubscribe
DELETE FROM onward_subscription
WHERE namespace = :namespace AND topic = :topic AND handler = :handler;

-- name: subscribe
-- A consumer that was removed and comes back keeps its counts.
INSERT INTO onward_subscription (namespace, topic, handler, keyed, since, consumed, skipped)
SELECT t.namespace, t.name, CAST(:handler AS TEXT), CAST(:keyed AS BIGINT),
       CASE WHEN CAST(:earliest AS BIGINT) = 1 THEN 0 ELSE t.last END,
       (SELECT count(*) FROM onward_delivery d
        WHERE d.namespace = t.namespace AND d.handler = CAST(:handler AS TEXT)
          AND d.topic = t.name AND d.state = 'consumed'),
       (SELECT count(*) FROM onward_delivery d
        WHERE d.namespace = t.namespace AND d.handler = CAST(:handler AS TEXT)
          AND d.topic = t.name AND d.state = 'skipped')
FROM onward_topic t WHERE t.namespace = :namespace AND t.name = :topic
ON CONFLICT DO NOTHING;

-- name: rekey_subscription
UPDATE onward_subscription SET keyed = :keyed
WHERE namespace = :namespace AND topic = :topic AND handler = :handler;

-- name: deliver_earlier
-- All events of a topic, for a consumer that begins with the earliest one. What an operator has
-- skipped by its inputs is skipped for it too.
INSERT INTO onward_delivery (
    namespace, handler, event, topic, seq, key, state, reason, updated_at)
SELECT e.namespace, CAST(:handler AS TEXT), e.uid, e.topic, e.seq,
       CASE WHEN CAST(:keyed AS BIGINT) = 1 THEN e.key ELSE '' END,
       CASE WHEN e.is_dropped THEN 'skipped' ELSE 'pending' END,
       CASE WHEN e.is_dropped THEN 'operator' END, :now
FROM (SELECT v.*, EXISTS (SELECT 1 FROM onward_cause c
                          WHERE c.namespace = v.namespace AND c.kind = 'event' AND c.target = v.uid)
             AND NOT EXISTS (
                 SELECT 1 FROM onward_cause c
                 JOIN onward_input i ON i.namespace = c.namespace AND i.uid = c.input
                 WHERE c.namespace = v.namespace AND c.kind = 'event' AND c.target = v.uid
                   AND i.skipped_at IS NULL) AS is_dropped
      FROM onward_event v INDEXED BY onward_event_seq
      WHERE v.namespace = :namespace AND v.topic = :topic) e
WHERE true
ON CONFLICT DO NOTHING
RETURNING event, key, state;

-- name: rekey_deliveries
-- What is pending follows a pipeline that has become parallel, or serial.
UPDATE onward_delivery
SET key = CASE WHEN CAST(:keyed AS BIGINT) = 1 THEN (
        SELECT e.key FROM onward_event e
        WHERE e.namespace = onward_delivery.namespace AND e.uid = onward_delivery.event)
    ELSE '' END, updated_at = :now
WHERE namespace = :namespace AND handler = :handler AND topic = :topic AND state = 'pending'
RETURNING key;

-- name: pending_keys
SELECT DISTINCT key FROM onward_delivery INDEXED BY onward_delivery_pending
WHERE namespace = :namespace AND handler = :handler AND topic = :topic AND state = 'pending';
