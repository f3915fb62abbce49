-- name: place
-- Which database of which server this is, and whether a caller may insert here. Nothing in it can
-- fail, so that a connection of the wrong kind is refused without aborting its transaction.
SELECT current_database(),
       CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS BIGINT),
       current_setting('transaction_read_only') = 'off'
       AND coalesce(
           CASE WHEN has_schema_privilege(to_regnamespace(:schema::text)::oid, 'USAGE') THEN
               has_table_privilege(to_regclass('onward_run')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_run')::oid, 'SELECT')
               AND has_table_privilege(to_regclass('onward_run_data')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_run_data')::oid, 'SELECT')
               AND has_table_privilege(to_regclass('onward_outbox')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_unpublished')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_topic')::oid, 'SELECT')
               AND has_table_privilege(to_regclass('onward_tombstone')::oid, 'SELECT')
           END, false),
       -- A transaction that has notified cannot be prepared for a commit in two phases.
       current_setting('max_prepared_transactions') = '0'
       AND has_function_privilege('pg_catalog.pg_notify(text, text)', 'EXECUTE');

-- name: hint_start
-- It is sent if and when the caller commits. A queue of notifications that is full would abort that.
SELECT pg_notify(:channel, 'queue:' || :queue) WHERE pg_notification_queue_usage() < 0.5;

-- name: hint_send
-- A worker of the run's queue moves the message into the inbox.
SELECT pg_notify(:channel, 'queue:' || queue)
FROM (
    SELECT queue, 1 AS rank FROM onward_run
    WHERE namespace = :namespace AND id = :target AND newest = 1
    UNION ALL
    SELECT queue, 2 AS rank FROM onward_run WHERE namespace = :namespace AND uid = :target
    ORDER BY rank LIMIT 1) AS target
WHERE pg_notification_queue_usage() < 0.5;

-- name: hint_publish
-- A worker moves the event into its topic.
SELECT pg_notify(:channel, 'pipelines') WHERE pg_notification_queue_usage() < 0.5;
