-- Retention: families of ended runs are marked by tombstones, then deleted run by run. core/retention.py
-- decides which ones; here is what it needs to know. What deletes rows is in the
-- folders of the databases.

-- part: ended_at
-- A clock that is set forward makes no run older (clock_steps.sql).
r.finished_at + (SELECT CAST(coalesce(sum(s.step), 0) AS BIGINT) FROM onward_clock_step s
                 WHERE s.namespace = :namespace AND s.began_by >= r.finished_at)

-- name: ended_runs
-- Runs without a parent in one final state, oldest first, that are not marked. Here and below a lookup is a scalar subquery:
-- a plan for NOT EXISTS that is made while tables are empty may read a whole namespace.
SELECT r.uid, {ended_at} FROM onward_run r INDEXED BY onward_run_top
WHERE r.namespace = :namespace AND r.state = :state AND r.parent IS NULL AND r.uid > ''
  AND r.uid > :after AND r.uid < :below
  AND (SELECT 1 FROM onward_tombstone t WHERE t.namespace = r.namespace AND t.uid = r.uid) IS NULL
ORDER BY r.uid LIMIT :limit;

-- name: retention_facts
SELECT r.uid, r.id, r.state, {ended_at}, r.parent, r.cancel_with_parent, r.follows, r.link,
       coalesce((SELECT 1 FROM onward_effect e INDEXED BY onward_effect_run
                 WHERE e.namespace = r.namespace AND e.run = r.uid AND e.run IS NOT NULL
                   AND e.state NOT IN ('applied', 'failed', 'skipped', 'withdrawn') LIMIT 1),
                (SELECT 1 FROM onward_delivery d INDEXED BY onward_delivery_reserved
                 WHERE d.namespace = r.namespace AND d.run = r.uid AND d.state = 'reserved' LIMIT 1), 0),
       (SELECT max(CASE WHEN e.known_until > e.settle_until THEN e.known_until
                        ELSE coalesce(e.settle_until, e.known_until) END + {added})
        FROM onward_effect e INDEXED BY onward_effect_run
        WHERE e.namespace = r.namespace AND e.run = r.uid AND e.run IS NOT NULL AND e.attempt > 0)
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value;

-- name: runs_in_need
-- Runs that need others to be there: their children, and runs that retry or fork them.
SELECT c.uid FROM json_each(:uids) j
CROSS JOIN onward_run c INDEXED BY onward_run_parent
    ON c.namespace = :namespace AND c.parent = j.value AND c.parent IS NOT NULL
UNION
SELECT f.uid FROM json_each(:uids) j
CROSS JOIN onward_run f INDEXED BY onward_run_follows
    ON f.namespace = :namespace AND f.follows = j.value AND f.follows IS NOT NULL
WHERE f.link IN ('retry_of', 'forked_from');

-- name: mark_runs
-- Only the newest run reserves the id, and only one that a user chose.
INSERT INTO onward_tombstone (
    namespace, uid, id, name, start_hash, state, finished_at, marked_at, until)
SELECT r.namespace, r.uid,
       CASE WHEN r.newest <> 0 AND r.id <> coalesce(r.chain, r.uid) THEN r.id END, r.name,
       coalesce(d.start_hash, d.args_hash, ''), r.state, r.finished_at, :now,
       {ended_at} + CAST(:ids AS BIGINT)
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE true
ON CONFLICT DO NOTHING
RETURNING uid;

-- name: marked_runs
-- Marked runs that no row refers to any more: children go before parents, and older runs of an id before newer ones.
SELECT t.uid, r.seq + r.inbox FROM onward_tombstone t INDEXED BY onward_tombstone_marked
CROSS JOIN onward_run r ON r.namespace = t.namespace AND r.uid = t.uid
WHERE t.namespace = :namespace AND t.is_deleted = 0
  AND (SELECT 1 FROM onward_run c INDEXED BY onward_run_parent
       WHERE c.namespace = t.namespace AND c.parent = t.uid AND c.parent IS NOT NULL LIMIT 1) IS NULL
  AND (SELECT 1 FROM onward_run o
       WHERE o.namespace = r.namespace AND o.uid = r.follows AND o.id = r.id) IS NULL
ORDER BY t.uid LIMIT :limit;

-- name: count_records
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_record h ON h.namespace = :namespace AND h.run = j.value;

-- name: count_messages
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_inbox h ON h.namespace = :namespace AND h.run = j.value;

-- name: count_effects
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_effect h INDEXED BY onward_effect_run ON h.namespace = :namespace AND h.run = j.value AND h.run IS NOT NULL;

-- name: count_run_data
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_run_data h ON h.namespace = :namespace AND h.uid = j.value;

-- name: count_run_rows
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_run h ON h.namespace = :namespace AND h.uid = j.value;

-- name: expired_tombstones
SELECT uid FROM onward_tombstone INDEXED BY onward_tombstone_until
WHERE namespace = :namespace AND is_deleted = 1 AND until <= :now
ORDER BY until LIMIT :limit;

-- name: free_id
-- A run that replaces another has its id, whatever was reserved.
UPDATE onward_tombstone INDEXED BY onward_tombstone_id SET id = NULL
WHERE namespace = :namespace AND id = :id AND id IS NOT NULL;

-- name: tombstone
-- What is left of a run that was deleted, by its id or its uid.
SELECT id, finished_at, marked_at, 1 AS rank FROM onward_tombstone INDEXED BY onward_tombstone_id
WHERE namespace = :namespace AND id = :target AND id IS NOT NULL
UNION ALL
SELECT id, finished_at, marked_at, 2 AS rank FROM onward_tombstone
WHERE namespace = :namespace AND uid = :target
ORDER BY rank, finished_at DESC LIMIT 1;

-- name: is_marked
SELECT 1 FROM onward_tombstone WHERE namespace = :namespace AND uid = :uid;
