-- Lists for people: newest first, by pages. A cursor is the uid of the last row of a page.

-- name: list_runs
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, tied,
       follows, link, attempt, origin, handler, parked_by, scheduled_at, created_at, started_at,
       finished_at, updated_at
FROM onward_run
WHERE namespace = :namespace
  AND (CAST(:before AS TEXT) IS NULL OR uid < CAST(:before AS TEXT))
  AND (CAST(:name AS TEXT) IS NULL OR name = CAST(:name AS TEXT))
  AND (CAST(:state AS TEXT) IS NULL OR state = CAST(:state AS TEXT))
  AND (CAST(:queue AS TEXT) IS NULL OR queue = CAST(:queue AS TEXT))
ORDER BY uid DESC LIMIT :limit;

-- name: runs_between
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, tied,
       follows, link, attempt, origin, handler, parked_by, scheduled_at, created_at, started_at,
       finished_at, updated_at
FROM onward_run WHERE namespace = :namespace AND uid >= :low AND uid <= :high
ORDER BY uid LIMIT :limit;

-- name: runs_beginning
-- No index helps here: databases differ in how they sort what users write. For operators alone.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, tied,
       follows, link, attempt, origin, handler, parked_by, scheduled_at, created_at, started_at,
       finished_at, updated_at
FROM onward_run INDEXED BY onward_run_newest
WHERE namespace = :namespace AND newest = 1
  AND substr(id, 1, length(CAST(:beginning AS TEXT))) = CAST(:beginning AS TEXT)
ORDER BY id LIMIT :limit;

-- name: list_children
-- Not sorted here: an order that the primary key has would lead Postgres to read all of it.
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, tied,
       follows, link, attempt, origin, handler, parked_by, scheduled_at, created_at, started_at,
       finished_at, updated_at
FROM onward_run INDEXED BY onward_run_parent
WHERE namespace = :namespace AND parent = :uid;

-- name: kinds_to_claim
-- Everything by which a worker chooses, of the runs that wait for one.
SELECT queue, name, version, tags FROM onward_run
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NULL
UNION
SELECT queue, name, version, tags FROM onward_run
WHERE namespace = :namespace AND state = 'ready' AND flow_key IS NOT NULL
UNION
SELECT queue, name, version, tags FROM onward_run
WHERE namespace = :namespace AND state = 'waiting' AND due <= :now
ORDER BY 1, 2, 3, 4;

-- name: runs_to_claim
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, tied,
       follows, link, attempt, origin, handler, parked_by, scheduled_at, created_at, started_at,
       finished_at, updated_at
FROM onward_run
WHERE namespace = :namespace AND state IN ('ready', 'waiting') AND due <= :now
  AND queue = :queue AND name = :name AND tags = :tags
  AND coalesce(version, '') = coalesce(CAST(:version AS TEXT), '')
ORDER BY due, uid LIMIT :limit;
