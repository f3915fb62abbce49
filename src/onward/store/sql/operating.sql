-- What operators see of pipelines and topics, and what they change. Nothing here reads what was consumed.

-- name: list_pipelines
SELECT name, parallel, queue, paused, updated_at FROM onward_pipeline
WHERE namespace = :namespace ORDER BY name;

-- name: declared_topics
SELECT name, pipeline, last, max_pending, max_age FROM onward_topic
WHERE namespace = :namespace ORDER BY name;

-- name: declared_topic
SELECT name, pipeline, last, max_pending, max_age FROM onward_topic
WHERE namespace = :namespace AND name = :topic;

-- name: all_subscriptions
SELECT topic, handler, consumed, skipped FROM onward_subscription
WHERE namespace = :namespace ORDER BY topic, handler;

-- name: topic_subscriptions
SELECT topic, handler, consumed, skipped FROM onward_subscription
WHERE namespace = :namespace AND topic = :topic ORDER BY handler;

-- part: handler_columns
-- A declaration stands for all its keys: it has work if one of them has.
h.handler, h.key, h.pipeline, h.kind, h.lane, h.publishes, h.blocked_by, h.failures, h.wake_at,
h.removed,
h.published > h.seen OR h.wake_at <= :now
OR h.key = '' AND EXISTS (
    SELECT 1 FROM onward_handler w INDEXED BY onward_handler_work
    WHERE w.namespace = h.namespace AND w.handler = h.handler AND w.published > w.seen AND w.removed = 0),
(SELECT count(*) FROM (
    SELECT 1 FROM onward_delivery d INDEXED BY onward_delivery_pending
    WHERE d.namespace = h.namespace AND d.handler = h.handler AND d.state = 'pending'
      AND (h.key = '' OR d.key = h.key)
    LIMIT :counted) c)

-- name: declared_handlers
SELECT {handler_columns} FROM onward_handler h
WHERE h.namespace = :namespace AND h.key = '' ORDER BY h.handler;

-- name: handler_keys_of
SELECT {handler_columns} FROM json_each(:keys) k
CROSS JOIN onward_handler h
    ON h.namespace = :namespace AND h.handler = :handler AND h.key = k.value
WHERE true
ORDER BY h.key;

-- name: busiest_keys
SELECT key, count(*) AS pending FROM onward_delivery INDEXED BY onward_delivery_pending
WHERE namespace = :namespace AND handler = :handler AND state = 'pending'
GROUP BY key ORDER BY pending DESC, key LIMIT :limit;

-- name: list_blocked_handlers
SELECT h.handler, h.key, h.pipeline, h.lane, h.blocked_by, h.failures, r.id
FROM onward_handler h INDEXED BY onward_handler_blocked
LEFT JOIN onward_run r ON r.namespace = h.namespace AND r.uid = h.blocked_by
WHERE h.namespace = :namespace AND h.blocked_by IS NOT NULL
ORDER BY h.handler, h.key LIMIT :limit;

-- name: open_handler_runs
SELECT id, handler, handler_key, lane, state, reason
FROM onward_run INDEXED BY onward_run_lane
WHERE namespace = :namespace AND lane IS NOT NULL
  AND state IN ('ready', 'running', 'waiting', 'paused')
LIMIT :limit;

-- name: pending_counts
SELECT count(*) FROM onward_delivery INDEXED BY onward_delivery_pending
WHERE namespace = :namespace AND handler = :handler AND topic = :topic AND state = 'pending';

-- name: reserved_counts
-- Runs that are open, or have ended with an effect that may have happened, have reserved them.
SELECT topic, handler, count(*) FROM onward_delivery INDEXED BY onward_delivery_reserved
WHERE namespace = :namespace AND state = 'reserved' AND run IS NOT NULL
GROUP BY topic, handler;

-- name: removed_consumers
SELECT handler FROM onward_handler INDEXED BY onward_handler_removed
WHERE namespace = :namespace AND key = '' AND kind = 'consumer' AND removed = 1
ORDER BY handler;

-- part: event_columns
e.uid, e.topic, e.seq, e.message, e.key, e.payload, coalesce(r.id, e.run), e.created_at

-- name: pending_events
SELECT {event_columns}
FROM (SELECT d.event, d.seq FROM onward_delivery d INDEXED BY onward_delivery_pending
      WHERE d.namespace = :namespace AND d.handler = :handler AND d.topic = :topic
        AND d.state = 'pending'
      ORDER BY d.seq LIMIT :limit) p
CROSS JOIN onward_event e ON e.namespace = :namespace AND e.uid = p.event
LEFT JOIN onward_run r ON r.namespace = e.namespace AND r.uid = e.run
WHERE true
ORDER BY e.seq;

-- name: events_by_message
SELECT {event_columns} FROM json_each(:messages) m
CROSS JOIN onward_event e
    ON e.namespace = :namespace AND e.topic = :topic AND e.message = m.value
LEFT JOIN onward_run r ON r.namespace = e.namespace AND r.uid = e.run
WHERE true
ORDER BY e.seq;

-- name: events_by_uid
SELECT {event_columns} FROM json_each(:events) u
CROSS JOIN onward_event e ON e.namespace = :namespace AND e.uid = u.value
LEFT JOIN onward_run r ON r.namespace = e.namespace AND r.uid = e.run
WHERE true
ORDER BY e.created_at, e.topic, e.seq;

-- name: deliveries_of_events
SELECT d.event, d.handler, d.key, d.state, coalesce(r.id, d.run), d.attempt, d.releases, d.reason,
       d.updated_at, d.run
FROM json_each(:events) u
CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
    ON d.namespace = :namespace AND d.event = u.value
LEFT JOIN onward_run r ON r.namespace = d.namespace AND r.uid = d.run
WHERE true
ORDER BY d.event, d.handler;

-- name: pause_pipeline
UPDATE onward_pipeline SET paused = :paused, updated_at = :now
WHERE namespace = :namespace AND name = :name
RETURNING name;

-- name: pause_all_pipelines
INSERT INTO onward_pipeline (namespace, name, paused, updated_at)
VALUES (:namespace, '', :paused, :now)
ON CONFLICT (namespace, name) DO UPDATE
SET paused = excluded.paused, updated_at = excluded.updated_at;

-- name: replay_deliveries
UPDATE onward_delivery
SET state = 'pending', run = NULL, reason = NULL, attempt = attempt + 1, replays = replays + 1,
    releases = 0, updated_at = :now
WHERE (namespace, handler, event) IN (
    SELECT d.namespace, d.handler, d.event FROM json_each(:events) u
    CROSS JOIN onward_delivery d
        ON d.namespace = :namespace AND d.handler = :handler AND d.event = u.value
    WHERE true);

-- name: skip_deliveries
UPDATE onward_delivery SET state = 'skipped', reason = :reason, updated_at = :now
WHERE (namespace, handler, event) IN (
    SELECT d.namespace, d.handler, d.event FROM json_each(:events) u
    CROSS JOIN onward_delivery d
        ON d.namespace = :namespace AND d.handler = :handler AND d.event = u.value
    WHERE true);

-- name: events_of_skipped_inputs
-- Of these events, those that have inputs, all of which were skipped.
SELECT u.value FROM json_each(:events) u
WHERE EXISTS (SELECT 1 FROM onward_cause c
              WHERE c.namespace = :namespace AND c.kind = 'event' AND c.target = u.value)
  AND NOT EXISTS (SELECT 1 FROM onward_cause c
                  JOIN onward_input i ON i.namespace = c.namespace AND i.uid = c.input
                  WHERE c.namespace = :namespace AND c.kind = 'event' AND c.target = u.value
                    AND i.skipped_at IS NULL);

-- name: producers_of
SELECT handler FROM onward_handler INDEXED BY onward_handler_pipeline
WHERE namespace = :namespace AND pipeline = :pipeline AND key = '' AND kind = 'producer'
  AND removed = 0
ORDER BY handler;

-- name: topics_of_events
SELECT e.uid, e.topic FROM json_each(:events) u
CROSS JOIN onward_event e ON e.namespace = :namespace AND e.uid = u.value
WHERE true;

-- name: lost_reservations
-- Events that are reserved by a run that is gone, or that another run has followed.
SELECT d.handler, coalesce(r.id, d.run), count(*)
FROM onward_delivery d INDEXED BY onward_delivery_reserved
LEFT JOIN onward_run r ON r.namespace = d.namespace AND r.uid = d.run
WHERE d.namespace = :namespace AND d.state = 'reserved' AND d.run IS NOT NULL
  AND coalesce(r.newest, 0) = 0
GROUP BY d.handler, coalesce(r.id, d.run)
ORDER BY d.handler LIMIT :limit;

-- name: topics_without_consumer
SELECT t.name FROM onward_topic t
WHERE t.namespace = :namespace AND NOT EXISTS (
    SELECT 1 FROM onward_subscription s WHERE s.namespace = t.namespace AND s.topic = t.name)
ORDER BY t.name LIMIT :limit;
