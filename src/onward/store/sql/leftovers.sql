-- How many rows have expired that belong to no run, counted up to `:limit`.

-- name: count_old_slots
-- What `remove_old_slots` deletes.
SELECT count(*) FROM (
    SELECT 1 FROM onward_slot o INDEXED BY onward_slot_newest
    WHERE o.namespace = :namespace AND o.schedule = :schedule
      AND o.until < :now - CAST(:kept AS BIGINT)
      AND o.until < (SELECT n.until FROM onward_slot n INDEXED BY onward_slot_newest
                     WHERE n.namespace = :namespace AND n.schedule = :schedule
                     ORDER BY n.until DESC, n.at DESC LIMIT 1 OFFSET CAST(:newest AS BIGINT))
    LIMIT CAST(:limit AS BIGINT)) c;

-- name: count_expired_cache
SELECT count(*) FROM (
    SELECT 1 FROM onward_cache INDEXED BY onward_cache_expiry
    WHERE namespace = :namespace AND expires_at <= :now LIMIT CAST(:limit AS BIGINT)) c;

-- name: count_expired_tombstones
SELECT count(*) FROM (
    SELECT 1 FROM onward_tombstone INDEXED BY onward_tombstone_until
    WHERE namespace = :namespace AND is_deleted = 1 AND until <= :now
    LIMIT CAST(:limit AS BIGINT)) c;

-- name: count_idle_keys
SELECT count(*) FROM (
    SELECT 1 FROM onward_flow INDEXED BY onward_flow_forget
    WHERE namespace = :namespace AND forget_at IS NOT NULL AND forget_at <= :now
    LIMIT CAST(:limit AS BIGINT)) c;

-- name: count_old_workers
SELECT count(*) FROM onward_worker w
WHERE w.namespace = :namespace AND w.left_at < :now - CAST(:kept AS BIGINT) AND NOT EXISTS (
    SELECT 1 FROM onward_lease l WHERE l.namespace = w.namespace AND l.worker = w.worker);

-- name: names_of_schedules
SELECT name FROM onward_schedule WHERE namespace = :namespace ORDER BY name;
