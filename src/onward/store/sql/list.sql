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
