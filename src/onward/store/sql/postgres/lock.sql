-- Locks that a transaction of several statements takes before it looks.

-- name: wait_shortly_for_locks
SELECT set_config('lock_timeout', '100', true);

-- name: lock_runs
-- In one order, so that no two transactions wait for each other.
SELECT r.uid FROM (SELECT uid FROM unnest(:uids::text[]) u (uid) ORDER BY uid) k, LATERAL (
    SELECT uid FROM onward_run
    WHERE namespace = :namespace::text AND uid = k.uid LIMIT 1 FOR NO KEY UPDATE) r;

-- name: lock_effects
SELECT e.key FROM (SELECT key FROM unnest(:keys::text[]) u (key) ORDER BY key) k, LATERAL (
    SELECT key FROM onward_effect
    WHERE namespace = :namespace AND key = k.key LIMIT 1 FOR UPDATE) e;
