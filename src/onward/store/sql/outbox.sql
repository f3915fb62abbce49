-- Messages that callers wrote in transactions of their own, on their way into inboxes.

-- name: insert_outbox
INSERT INTO onward_outbox (namespace, target, message, kind, name, payload, wakes, created_at)
VALUES (:namespace, :target, :message, :kind, :name, :payload, :wakes, :now);

-- name: outbox_waiting
SELECT count(*) FROM (SELECT 1 FROM onward_outbox WHERE namespace = :namespace LIMIT 1) o;

-- name: outbox_of_run
SELECT seq, target, message, kind, name, payload, wakes FROM onward_outbox
WHERE namespace = :namespace AND target = :target AND seq > :after
ORDER BY seq LIMIT :limit
FOR UPDATE;

-- name: drop_outbox_rows
DELETE FROM onward_outbox
WHERE namespace = :namespace AND seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs));
