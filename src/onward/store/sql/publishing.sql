-- Events on their way into topics: see store/pipelines/publishing.py for the order of the locks.

-- name: subscribers
-- A topic without consumers has one row.
SELECT t.name, s.handler, s.keyed FROM onward_topic t
LEFT JOIN onward_subscription s ON s.namespace = t.namespace AND s.topic = t.name
WHERE t.namespace = :namespace AND t.name IN (SELECT value FROM json_each(:topics))
ORDER BY t.name, s.handler;

-- name: add_handler_keys
-- A consumer gets a row for each key of its events; what it is stands in the row of its declaration.
INSERT INTO onward_handler (namespace, handler, key, pipeline, kind, queue, lane, updated_at)
SELECT h.namespace, h.handler, k.value, h.pipeline, h.kind, h.queue, h.handler || ' ' || k.value, :now
FROM json_each(:keys) k
CROSS JOIN onward_handler h ON h.namespace = :namespace AND h.handler = :handler AND h.key = ''
WHERE true
ORDER BY k.value
ON CONFLICT DO NOTHING;

-- name: lock_handler_keys
SELECT key FROM onward_handler
WHERE namespace = :namespace AND handler = :handler
  AND key IN (SELECT value FROM json_each(:keys))
ORDER BY key
FOR NO KEY UPDATE;

-- name: raise_handler_keys
UPDATE onward_handler SET published = published + 1, updated_at = :now
WHERE namespace = :namespace AND handler = :handler
  AND key IN (SELECT value FROM json_each(:keys));

-- name: lock_topics
SELECT name, last FROM onward_topic
WHERE namespace = :namespace AND name IN (SELECT value FROM json_each(:topics))
ORDER BY name
FOR NO KEY UPDATE;

-- name: raise_topic
UPDATE onward_topic SET last = :last WHERE namespace = :namespace AND name = :topic;

-- name: published_before
SELECT message, uid, seq, key, payload, run FROM onward_event
WHERE namespace = :namespace AND topic = :topic
  AND message IN (SELECT value FROM json_each(:messages));

-- name: lock_deliveries_of
SELECT event, handler, key, state FROM onward_delivery
WHERE namespace = :namespace AND event IN (SELECT value FROM json_each(:events))
ORDER BY event, handler
FOR NO KEY UPDATE;

-- name: renew_deliveries
-- A run that has read the event before its payload changed cannot reserve it any more.
UPDATE onward_delivery SET attempt = attempt + 1, updated_at = :now
WHERE namespace = :namespace AND event IN (SELECT value FROM json_each(:events)) AND state = 'pending'
RETURNING event;

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
WHERE namespace = :namespace AND event IN (SELECT value FROM json_each(:events)) AND state = 'pending'
RETURNING topic, handler;

-- name: count_skipped
UPDATE onward_subscription SET skipped = skipped + :count
WHERE namespace = :namespace AND topic = :topic AND handler = :handler;

-- name: known_inputs
SELECT uid FROM onward_input
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids));

-- name: inputs_by_external
SELECT external, uid FROM onward_input
WHERE namespace = :namespace AND pipeline = :pipeline AND source = :source AND type = :type
  AND external IN (SELECT value FROM json_each(:externals));

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
SELECT uid, skipped_at FROM onward_input
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids))
ORDER BY uid
FOR NO KEY UPDATE;

-- name: raise_inputs
UPDATE onward_input SET open = open + :open, events = events + :events
WHERE namespace = :namespace AND uid IN (SELECT value FROM json_each(:uids));
