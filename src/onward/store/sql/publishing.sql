-- Events on their way into topics: see store/pipelines/publishing.py for the order of the locks.

-- name: subscribers
-- A topic without consumers has one row.
SELECT t.name, s.handler, s.keyed FROM onward_topic t
LEFT JOIN onward_subscription s ON s.namespace = t.namespace AND s.topic = t.name
WHERE t.namespace = :namespace AND t.name IN (SELECT value FROM json_each(:topics))
ORDER BY t.name, s.handler;

-- part: handler_keys
-- What a consumer is stands in the row of its declaration.
h.namespace, h.handler, k.value, h.pipeline, h.kind, h.queue, h.handler || ' ' || k.value, :now
FROM json_each(:keys) k
CROSS JOIN onward_handler h ON h.namespace = :namespace AND h.handler = :handler AND h.key = ''
WHERE true

-- name: add_handler_keys
-- A consumer gets a row for each key of its events.
INSERT INTO onward_handler (namespace, handler, key, pipeline, kind, queue, lane, updated_at)
SELECT {handler_keys}
ON CONFLICT DO NOTHING;

-- name: lock_handler_keys
-- In the order of the keys that are given.
SELECT h.key FROM json_each(:keys) k
CROSS JOIN onward_handler h
    ON h.namespace = :namespace AND h.handler = :handler AND h.key = k.value
FOR NO KEY UPDATE;

-- name: raise_handler_keys
-- An upsert finds each row by its key, however many there are.
INSERT INTO onward_handler AS t (
    published, namespace, handler, key, pipeline, kind, queue, lane, updated_at)
SELECT 1, {handler_keys}
ON CONFLICT (namespace, handler, key) DO UPDATE
SET published = t.published + 1, updated_at = excluded.updated_at;

-- name: lock_topics
-- In the order of the names that are given.
SELECT t.name, t.last FROM json_each(:topics) n
CROSS JOIN onward_topic t ON t.namespace = :namespace AND t.name = n.value
FOR NO KEY UPDATE;

-- name: raise_topic
UPDATE onward_topic SET last = :last WHERE namespace = :namespace AND name = :topic;

-- name: published_before
SELECT e.message, e.uid, e.seq, e.key, e.payload, e.run FROM json_each(:messages) m
CROSS JOIN onward_event e
    ON e.namespace = :namespace AND e.topic = :topic AND e.message = m.value
WHERE true;

-- name: lock_deliveries_of
SELECT d.event, d.handler, d.key, d.state FROM json_each(:events) u
CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
    ON d.namespace = :namespace AND d.event = u.value
FOR NO KEY UPDATE;

-- name: renew_deliveries
-- A run that has read the event before its payload changed cannot reserve it any more.
UPDATE onward_delivery SET attempt = attempt + 1, updated_at = :now
WHERE (namespace, handler, event) IN (
    SELECT d.namespace, d.handler, d.event FROM json_each(:events) u
    CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
        ON d.namespace = :namespace AND d.event = u.value
    WHERE true);

-- name: add_deliveries
INSERT INTO onward_delivery (namespace, handler, event, topic, seq, key, state, updated_at)
SELECT e.namespace, s.handler, e.uid, e.topic, e.seq, CASE WHEN s.keyed = 1 THEN e.key ELSE '' END,
       'pending', :now
FROM json_each(:events) u
CROSS JOIN onward_event e ON e.namespace = :namespace AND e.uid = u.value
CROSS JOIN onward_subscription s ON s.namespace = :namespace AND s.topic = e.topic
WHERE true;

-- name: skip_new_deliveries
UPDATE onward_delivery SET state = 'skipped', reason = :reason, updated_at = :now
WHERE (namespace, handler, event) IN (
    SELECT d.namespace, d.handler, d.event FROM json_each(:events) u
    CROSS JOIN onward_delivery d INDEXED BY onward_delivery_event
        ON d.namespace = :namespace AND d.event = u.value
    WHERE true)
RETURNING topic, handler;

-- name: count_skipped
UPDATE onward_subscription SET skipped = skipped + :count
WHERE namespace = :namespace AND topic = :topic AND handler = :handler;

-- name: known_inputs
SELECT uid FROM onward_input
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids));

-- name: inputs_by_external
SELECT i.external, i.uid FROM json_each(:externals) x
CROSS JOIN onward_input i
    ON i.namespace = :namespace AND i.pipeline = :pipeline AND i.source = :source
       AND i.type = :type AND i.external = x.value
WHERE true;

-- name: count_inputs
INSERT INTO onward_input_count AS c (namespace, pipeline, source, type, registered)
VALUES (:namespace, :pipeline, :source, :type, :count)
ON CONFLICT (namespace, pipeline, source, type) DO UPDATE
SET registered = c.registered + excluded.registered;

-- name: causes_of_runs
-- The first inputs of each run: uids rise with time.
SELECT r.value, c.input FROM json_each(:runs) r
CROSS JOIN onward_cause c ON c.namespace = :namespace AND c.kind = 'run' AND c.target = r.value
ORDER BY r.value, c.input;

-- name: lock_inputs
-- In the order of the uids that are given.
SELECT i.uid, i.skipped_at FROM json_each(:uids) u
CROSS JOIN onward_input i ON i.namespace = :namespace AND i.uid = u.value
FOR NO KEY UPDATE;

-- name: raise_inputs
UPDATE onward_input SET open = open + :open, events = events + :events
WHERE (namespace, uid) IN (
    SELECT i.namespace, i.uid FROM json_each(:uids) u
    CROSS JOIN onward_input i ON i.namespace = :namespace AND i.uid = u.value
    WHERE true);

-- name: insert_unpublished
INSERT INTO onward_unpublished (namespace, uid, topic, message, key, payload, created_at)
VALUES (:namespace, :uid, :topic, :message, :key, :payload, :now);

-- name: topic_seen
SELECT 1 FROM onward_topic WHERE namespace = :namespace AND name = :topic;

-- name: unpublished_waiting
SELECT count(*) FROM (SELECT 1 FROM onward_unpublished WHERE namespace = :namespace LIMIT 1) o;

-- name: oldest_unpublished
SELECT seq, uid, topic, message, payload, key FROM onward_unpublished
WHERE namespace = :namespace ORDER BY seq LIMIT :limit
FOR UPDATE;

-- name: drop_unpublished
DELETE FROM onward_unpublished
WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs));
