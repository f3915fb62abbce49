-- What workers read of pipelines.

-- name: handler_row
SELECT state, state_version, published, :now AS at FROM onward_handler
WHERE namespace = :namespace AND handler = :handler AND key = :key;

-- part: peeked
e.uid, e.topic, e.seq, e.message, e.key, e.payload, d.attempt, d.replays, e.created_at

-- name: peek_events
SELECT {peeked}
FROM (SELECT event, attempt, replays FROM onward_delivery INDEXED BY onward_delivery_pending
      WHERE namespace = :namespace AND handler = :handler AND topic = :topic AND key = :key
        AND state = 'pending'
      ORDER BY seq LIMIT :limit) d
CROSS JOIN onward_event e ON e.namespace = :namespace AND e.uid = d.event
ORDER BY e.seq;

-- name: peek_messages
SELECT {peeked}
FROM json_each(:messages) m
CROSS JOIN onward_event e
    ON e.namespace = :namespace AND e.topic = :topic AND e.message = m.value
CROSS JOIN onward_delivery d
    ON d.namespace = :namespace AND d.handler = :handler AND d.event = e.uid
WHERE d.state = 'pending' AND d.key = :key
ORDER BY e.seq;

-- name: limited_topics
SELECT name, max_pending, max_age FROM onward_topic
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:topics))
  AND (max_pending IS NOT NULL OR max_age IS NOT NULL)
ORDER BY name;

-- name: pending_of_topic
-- For each consumer: how many events are pending, up to a limit, and since when the oldest is.
SELECT s.handler,
       (SELECT count(*) FROM (
            SELECT 1 FROM onward_delivery d INDEXED BY onward_delivery_pending
            WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
              AND d.state = 'pending' LIMIT :limit) c) AS pending,
       (SELECT e.created_at FROM onward_event e
        WHERE e.namespace = s.namespace AND e.uid = (
            SELECT d.event FROM onward_delivery d INDEXED BY onward_delivery_pending
            WHERE d.namespace = s.namespace AND d.handler = s.handler AND d.topic = s.topic
              AND d.state = 'pending'
            ORDER BY d.seq LIMIT 1)) AS oldest,
       :now AS now
FROM onward_subscription s
WHERE s.namespace = :namespace AND s.topic = :topic;
