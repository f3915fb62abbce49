-- The condition of a Postgres server, as far as Onward depends on it.

-- name: durability_settings
SELECT name, setting FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit');

-- name: table_health
SELECT s.relname, s.n_live_tup, s.n_dead_tup, pg_total_relation_size(s.relid)
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'onward_run'::regclass)
  AND s.relname LIKE 'onward#_%' ESCAPE '#'
ORDER BY s.relname;

-- name: oldest_transaction
SELECT coalesce((extract(epoch FROM max(statement_timestamp() - xact_start)) * 1000000)::bigint, 0)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL;
