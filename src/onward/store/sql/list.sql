-- Lists for operators: newest first, by pages. A cursor is the uid of the last row of a page. A run that
-- another has replaced under its id is in no state of its own any more: a retried run has not failed.

-- part: listed
namespace = :namespace
  AND (CAST(:before AS TEXT) IS NULL OR uid < CAST(:before AS TEXT))
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
  AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT) AND newest <> 0)
  AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
  AND (CAST(:kind AS TEXT) IS NULL OR kind = CAST(:kind AS TEXT))
  AND (CAST(:tag AS TEXT) IS NULL
       OR replace(' ' || tags || ' ', ' ' || CAST(:tag AS TEXT) || ' ', '') <> ' ' || tags || ' ')
  AND (CAST(:children AS BIGINT) = 1 OR parent IS NULL)
  AND (CAST(:bound AS BIGINT) = 1 OR cancel_with_parent = 0)
  AND (CAST(:without AS TEXT) IS NULL OR name <> CAST(:without AS TEXT))
  AND (CAST(:is_open AS BIGINT) = 0 OR state IN ('ready', 'running', 'waiting', 'paused'))
  AND (CAST(:created_by AS BIGINT) IS NULL OR created_at <= CAST(:created_by AS BIGINT))

-- name: list_runs
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run
WHERE {listed}
ORDER BY uid DESC LIMIT :limit;

-- name: list_ended
-- Runs that have ended in one state: what is read does not grow with those that ended otherwise.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_ended
WHERE finished_at IS NOT NULL AND state = CAST(:state AS TEXT) AND {listed}
ORDER BY uid DESC LIMIT :limit;

-- name: list_open
-- Runs in one open state, by the index that has those alone.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_open
WHERE finished_at IS NULL AND state = CAST(:state AS TEXT) AND {listed}
ORDER BY uid DESC LIMIT :limit;

-- name: list_named
-- Runs of one workflow in one state.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_name
WHERE name = CAST(:name AS TEXT) AND created_at > 0 AND state = CAST(:in_state AS TEXT) AND {listed}
ORDER BY uid DESC LIMIT :limit;

-- name: count_runs
SELECT count(*) FROM (SELECT 1 FROM onward_run WHERE {listed} LIMIT :limit) c;

-- name: list_family
-- A run and its descendants; with `line`, also the descendants of the runs before it under its id.
WITH RECURSIVE line (uid, id, follows) AS (
    SELECT uid, id, follows FROM onward_run WHERE namespace = :namespace AND uid = :top
    UNION ALL
    SELECT r.uid, r.id, r.follows
    FROM line l CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = l.follows AND r.id = l.id
    WHERE CAST(:line AS BIGINT) = 1
), family (member, depth) AS (
    SELECT uid, 0 FROM line
    UNION ALL
    SELECT r.uid, f.depth + 1
    FROM family f CROSS JOIN onward_run r INDEXED BY onward_run_parent
        ON r.namespace = :namespace AND r.parent = f.member
    WHERE f.depth < CAST(:deepest AS BIGINT)
)
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM family f CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = f.member
WHERE depth >= CAST(:highest AS BIGINT)
  AND (CAST(:before AS TEXT) IS NULL OR uid < CAST(:before AS TEXT))
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
  AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT) AND newest <> 0)
  AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
  AND (CAST(:kind AS TEXT) IS NULL OR kind = CAST(:kind AS TEXT))
  AND (CAST(:tag AS TEXT) IS NULL
       OR replace(' ' || tags || ' ', ' ' || CAST(:tag AS TEXT) || ' ', '') <> ' ' || tags || ' ')
ORDER BY uid DESC LIMIT :limit;

-- name: outcomes
-- What lists show beside the rows of runs.
SELECT r.uid, d.error,
       (SELECT p.id FROM onward_run p WHERE p.namespace = r.namespace AND p.uid = r.parent) AS parent_id,
       (SELECT o.id FROM onward_run o WHERE o.namespace = r.namespace AND o.uid = r.follows)
       AS follows_id,
       (SELECT f.uid FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1) AS follower,
       (SELECT f.link FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1)
       AS follower_link,
       r.error_type, r.failed_step, r.discarded_at, d.discarded_by, d.discarded_why
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid;

-- name: count_started_by_runs
-- How many runs a list of top-level runs leaves out, counted up to a limit.
SELECT count(*) FROM (
    SELECT 1 FROM onward_run INDEXED BY onward_run_parent
    WHERE namespace = :namespace AND parent IS NOT NULL
      AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
      AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT) AND newest <> 0)
      AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
      AND (CAST(:kind AS TEXT) IS NULL OR kind = CAST(:kind AS TEXT))
      AND (CAST(:tag AS TEXT) IS NULL
           OR replace(' ' || tags || ' ', ' ' || CAST(:tag AS TEXT) || ' ', '') <> ' ' || tags || ' ')
    LIMIT :limit) c;

-- name: runs_between
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run WHERE namespace = :namespace AND uid >= :low AND uid <= :high
ORDER BY uid LIMIT :limit;

-- name: runs_beginning
-- No index helps here, because databases sort user text differently. For operators only.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_newest
WHERE namespace = :namespace AND newest = 1
  AND substr(id, 1, length(CAST(:beginning AS TEXT))) = CAST(:beginning AS TEXT)
ORDER BY id LIMIT :limit;

-- name: list_children
-- Not sorted here: an order that the primary key has would lead Postgres to read all of it.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run INDEXED BY onward_run_parent
WHERE namespace = :namespace AND parent = :uid;

-- part: abandoned
-- The run is in the name of a worker that does not renew its lease any more, or has none.
state = 'running' AND NOT EXISTS (
    SELECT 1 FROM onward_lease l
    WHERE l.namespace = r.namespace AND l.worker = r.worker AND l.renewed_at + l.length >= :now)

-- name: kinds_to_claim
-- What ready runs, and runs of workers that are gone, require of a worker.
SELECT queue, name, version, tags FROM onward_run INDEXED BY onward_run_ready
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL
UNION
SELECT queue, name, version, tags FROM onward_run INDEXED BY onward_run_flow
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL
UNION
SELECT queue, name, version, tags FROM onward_run
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
UNION
SELECT queue, name, version, tags FROM onward_run r INDEXED BY onward_run_running
WHERE namespace = :namespace AND {abandoned}
ORDER BY 1, 2, 3, 4;

-- name: runs_to_claim
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run r
WHERE namespace = :namespace AND (state IN ('ready', 'waiting') AND due <= :now OR {abandoned})
  AND queue = :queue AND name = :name AND tags = :tags
  AND coalesce(version, '') = coalesce(CAST(:version AS TEXT), '')
ORDER BY coalesce(due, 0), uid LIMIT :limit;
