-- Lists for operators: newest first, by pages. A cursor is the uid of the last row of a page. A run that
-- another has replaced under its id is in no state of its own any more: a retried run has not failed.

-- part: listed_columns
uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at

-- part: listed
-- The filters are one term: with so many, SQLite expects next to no rows, and sorts what an index has in order.
namespace = :namespace AND uid > '' AND uid < :before AND (
  (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
  AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT) AND newest <> 0)
  AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
  AND (CAST(:kind AS TEXT) IS NULL OR kind = CAST(:kind AS TEXT))
  AND (CAST(:tag AS TEXT) IS NULL
       OR replace(' ' || tags || ' ', ' ' || CAST(:tag AS TEXT) || ' ', '') <> ' ' || tags || ' ')
  AND (CAST(:children AS TEXT) = 'with' OR (CAST(:children AS TEXT) = 'only') = (parent IS NOT NULL))
  AND (CAST(:bound AS BIGINT) = 1 OR cancel_with_parent = 0)
  AND (CAST(:without AS TEXT) IS NULL OR name <> CAST(:without AS TEXT))
  AND (CAST(:is_open AS BIGINT) = 0 OR state IN ('ready', 'running', 'waiting', 'paused'))
  AND (CAST(:created_by AS BIGINT) IS NULL OR created_at <= CAST(:created_by AS BIGINT))) IS TRUE

-- The parts below choose among runs by an index each, so that what is read does not grow with runs that do
-- not match. store/runs/listing.py chooses among them.

-- part: from_any
onward_run WHERE {listed}

-- part: from_top
-- Those that clients and schedules started.
onward_run INDEXED BY onward_run_top
WHERE parent IS NULL
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_top_kind
onward_run INDEXED BY onward_run_top_kind
WHERE parent IS NULL AND kind <> 'workflow' AND kind = CAST(:kind AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_child
onward_run INDEXED BY onward_run_child
WHERE parent IS NOT NULL AND kind = CAST(:of_kind AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_queue
onward_run INDEXED BY onward_run_queue
WHERE parent IS NULL AND queue > '' AND queue = CAST(:queue AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_queue_child
onward_run INDEXED BY onward_run_queue_child
WHERE parent IS NOT NULL AND queue > '' AND queue = CAST(:queue AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_named
onward_run INDEXED BY onward_run_name
WHERE name > '' AND name = CAST(:name AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- part: from_tagged
onward_run INDEXED BY onward_run_tags
WHERE tags <> '' AND tags = CAST(:tags AS TEXT)
  AND state = CAST(:in_state AS TEXT) AND {listed}

-- name: list_any
SELECT {listed_columns} FROM {from_any}
ORDER BY uid DESC LIMIT :limit;

-- name: count_any
SELECT count(*) FROM (SELECT 1 FROM {from_any} LIMIT :limit) c;

-- name: list_top
SELECT {listed_columns} FROM {from_top}
ORDER BY uid DESC LIMIT :limit;

-- name: count_top
SELECT count(*) FROM (SELECT 1 FROM {from_top} LIMIT :limit) c;

-- name: list_top_kind
SELECT {listed_columns} FROM {from_top_kind}
ORDER BY uid DESC LIMIT :limit;

-- name: count_top_kind
SELECT count(*) FROM (SELECT 1 FROM {from_top_kind} LIMIT :limit) c;

-- name: list_child
SELECT {listed_columns} FROM {from_child}
ORDER BY uid DESC LIMIT :limit;

-- name: count_child
SELECT count(*) FROM (SELECT 1 FROM {from_child} LIMIT :limit) c;

-- name: list_queue
SELECT {listed_columns} FROM {from_queue}
ORDER BY uid DESC LIMIT :limit;

-- name: count_queue
SELECT count(*) FROM (SELECT 1 FROM {from_queue} LIMIT :limit) c;

-- name: list_queue_child
SELECT {listed_columns} FROM {from_queue_child}
ORDER BY uid DESC LIMIT :limit;

-- name: count_queue_child
SELECT count(*) FROM (SELECT 1 FROM {from_queue_child} LIMIT :limit) c;

-- name: list_named
SELECT {listed_columns} FROM {from_named}
ORDER BY uid DESC LIMIT :limit;

-- name: count_named
SELECT count(*) FROM (SELECT 1 FROM {from_named} LIMIT :limit) c;

-- name: list_tagged
SELECT {listed_columns} FROM {from_tagged}
ORDER BY uid DESC LIMIT :limit;

-- name: count_tagged
SELECT count(*) FROM (SELECT 1 FROM {from_tagged} LIMIT :limit) c;

-- name: next_tags
-- The combinations of tags that runs have are found one after another, each by one step in the index.
SELECT tags FROM onward_run INDEXED BY onward_run_tags
WHERE namespace = :namespace AND uid > '' AND tags <> '' AND tags > :after
ORDER BY tags LIMIT 1;

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
SELECT {listed_columns}
FROM family f CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = f.member
WHERE depth >= CAST(:highest AS BIGINT) AND uid < :before
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

-- name: runs_between
SELECT {listed_columns}
FROM onward_run WHERE namespace = :namespace AND uid >= :low AND uid <= :high
ORDER BY uid LIMIT :limit;

-- name: runs_beginning
-- Text is sorted by bytes in all databases, so ids that begin alike are neighbours.
SELECT {listed_columns}
FROM onward_run INDEXED BY onward_run_newest
WHERE namespace = :namespace AND newest = 1 AND id >= :beginning AND id < :beyond
ORDER BY id LIMIT :limit;

-- name: list_children
-- Not sorted here: an order that the primary key has would lead Postgres to read all of it.
SELECT {listed_columns}
FROM onward_run INDEXED BY onward_run_parent
WHERE namespace = :namespace AND parent = :uid;

-- part: abandoned
-- The run is in the name of a worker that does not renew its lease any more, or has none.
state = 'running' AND NOT EXISTS (
    SELECT 1 FROM onward_lease l
    WHERE l.namespace = r.namespace AND l.worker = r.worker AND l.renewed_at + l.length >= :now)

-- part: needed
queue = :queue AND name = :name AND tags = :tags
  AND coalesce(version, '') = coalesce(CAST(:version AS TEXT), '')

-- name: next_needs
-- What ready runs require of a worker is found step by step in the index, however many runs there are. Column
-- by column: SQLite would walk through all that are equal to what a comparison of rows begins with.
SELECT queue, name, tags, rank FROM (
    SELECT queue, name, tags, 1 AS rank FROM onward_run INDEXED BY onward_run_needs
    WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND queue = :queue AND name = :name AND tags > :tags
    ORDER BY tags LIMIT 1) t
UNION ALL
SELECT queue, name, tags, rank FROM (
    SELECT queue, name, tags, 2 AS rank FROM onward_run INDEXED BY onward_run_needs
    WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND queue = :queue AND name > :name
    ORDER BY name, tags LIMIT 1) n
UNION ALL
SELECT queue, name, tags, rank FROM (
    SELECT queue, name, tags, 3 AS rank FROM onward_run INDEXED BY onward_run_needs
    WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND queue > :queue
    ORDER BY queue, name, tags LIMIT 1) q
ORDER BY 4 LIMIT 1;

-- name: next_version_needed
SELECT version FROM onward_run INDEXED BY onward_run_needs
WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND queue = :queue AND name = :name AND tags = :tags
  AND coalesce(version, '') > :after
ORDER BY coalesce(version, '') LIMIT 1;

-- name: rare_needs
-- What runs require that are about to be ready, and runs of workers that are gone.
SELECT queue, name, version, tags FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
UNION
SELECT queue, name, version, tags FROM onward_run r INDEXED BY onward_run_running
WHERE namespace = :namespace AND {abandoned}
ORDER BY 1, 2, 3, 4;

-- name: ready_in_need
SELECT {listed_columns} FROM onward_run INDEXED BY onward_run_needs
WHERE namespace = :namespace AND state = 'ready' AND uid > '' AND {needed}
ORDER BY due, uid LIMIT :limit;

-- name: others_in_need
SELECT {listed_columns} FROM onward_run INDEXED BY onward_run_waiting
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now AND {needed}
UNION ALL
SELECT {listed_columns} FROM onward_run r INDEXED BY onward_run_running
WHERE namespace = :namespace AND {abandoned} AND {needed}
ORDER BY 1 LIMIT :limit;
