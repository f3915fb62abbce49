-- Dead letters: failed and timed-out runs that await a decision. The indexes are partial: what is read
-- does not grow with the runs that have ended otherwise.

-- part: dead
state IN ('failed', 'timed_out') AND newest = 1 AND cancel_with_parent = 0 AND discarded_at IS NULL

-- part: dead_chosen
namespace = :namespace AND {dead} AND uid < :before AND (
  (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
  AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT))
  AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
  AND (CAST(:kind AS TEXT) IS NULL OR kind = CAST(:kind AS TEXT))
  AND (CAST(:tag AS TEXT) IS NULL
       OR replace(' ' || tags || ' ', ' ' || CAST(:tag AS TEXT) || ' ', '') <> ' ' || tags || ' ')
  AND (CAST(:error AS TEXT) IS NULL OR error_type = CAST(:error AS TEXT)
       OR replace(error_type || ' ', '.' || CAST(:error AS TEXT) || ' ', '') <> error_type || ' ')
  AND (CAST(:failed_step AS TEXT) IS NULL OR failed_step = CAST(:failed_step AS TEXT))
  AND (CAST(:since AS BIGINT) IS NULL OR finished_at >= CAST(:since AS BIGINT))
  AND (CAST(:without AS TEXT) IS NULL OR name <> CAST(:without AS TEXT))
  AND (CAST(:created_by AS BIGINT) IS NULL OR created_at <= CAST(:created_by AS BIGINT))) IS TRUE

-- name: list_dead
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_dead
WHERE {dead_chosen}
ORDER BY uid DESC LIMIT :limit;

-- name: count_dead
SELECT count(*) FROM (
    SELECT 1 FROM onward_run INDEXED BY onward_run_dead WHERE {dead_chosen} LIMIT :limit) c;

-- name: next_dead_group
-- Groups are found one after another, each by a step in the index, however many runs it has. Column by
-- column: SQLite would walk through all that are equal to what a comparison of rows begins with.
SELECT name, error_type, failed_step, rank FROM (
    SELECT name, error_type, failed_step, 1 AS rank FROM onward_run INDEXED BY onward_run_dead_group
    WHERE namespace = :namespace AND {dead} AND name = :name AND error_type = :error AND failed_step > :step
    ORDER BY failed_step LIMIT 1) s
UNION ALL
SELECT name, error_type, failed_step, rank FROM (
    SELECT name, error_type, failed_step, 2 AS rank FROM onward_run INDEXED BY onward_run_dead_group
    WHERE namespace = :namespace AND {dead} AND name = :name AND error_type > :error
    ORDER BY error_type, failed_step LIMIT 1) e
UNION ALL
SELECT name, error_type, failed_step, rank FROM (
    SELECT name, error_type, failed_step, 3 AS rank FROM onward_run INDEXED BY onward_run_dead_group
    WHERE namespace = :namespace AND {dead} AND name > :name
    ORDER BY name, error_type, failed_step LIMIT 1) n
ORDER BY 4 LIMIT 1;

-- name: dead_times
-- When the runs of a group failed, newest first.
SELECT finished_at FROM onward_run INDEXED BY onward_run_dead_group
WHERE namespace = :namespace AND {dead}
  AND name = :name AND error_type = :error AND failed_step = :step AND finished_at >= :since
ORDER BY finished_at DESC LIMIT :limit;

-- name: ends_of_dead_group
-- When the first run of a group failed, and which run failed last.
SELECT (SELECT f.finished_at FROM onward_run f INDEXED BY onward_run_dead_group
        WHERE f.namespace = :namespace AND f.state IN ('failed', 'timed_out') AND f.newest = 1
          AND f.cancel_with_parent = 0 AND f.discarded_at IS NULL
          AND f.name = :name AND f.error_type = :error AND f.failed_step = :step
        ORDER BY f.finished_at LIMIT 1) AS first_at, uid
FROM onward_run INDEXED BY onward_run_dead_group
WHERE namespace = :namespace AND {dead}
  AND name = :name AND error_type = :error AND failed_step = :step
ORDER BY finished_at DESC LIMIT 1;

-- name: discard_run
-- With `be_followed`, the only change of a run that has ended. Not `newest = 1`: for that a plan could
-- choose the index on (namespace, id).
UPDATE onward_run SET discarded_at = :now
WHERE namespace = :namespace AND uid = :uid AND state IN ('failed', 'timed_out') AND newest <> 0
  AND cancel_with_parent = 0 AND discarded_at IS NULL
RETURNING uid;

-- name: keep_discard
UPDATE onward_run_data SET discarded_by = :by, discarded_why = :why
WHERE namespace = :namespace AND uid = :uid;

-- name: is_discarded
SELECT discarded_at IS NOT NULL FROM onward_run WHERE namespace = :namespace AND uid = :uid;
