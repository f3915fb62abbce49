-- name: place
-- Which database of which server this is, and whether a caller may insert here. Nothing in it can
-- fail, so that a connection of the wrong kind is told so without losing its transaction.
SELECT current_database(),
       CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS BIGINT),
       current_setting('transaction_read_only') = 'off'
       AND coalesce(
           CASE WHEN has_schema_privilege(to_regnamespace(:schema::text)::oid, 'USAGE') THEN
               has_table_privilege(to_regclass('onward_run')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_run')::oid, 'SELECT')
               AND has_table_privilege(to_regclass('onward_run_data')::oid, 'INSERT')
               AND has_table_privilege(to_regclass('onward_run_data')::oid, 'SELECT')
               AND has_table_privilege(to_regclass('onward_mark')::oid, 'INSERT')
           END, false);
