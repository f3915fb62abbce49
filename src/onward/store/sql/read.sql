-- Reads of a run, its end and its ledger rows.

-- name: clock
SELECT :now;

-- name: run_by_uid
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run WHERE namespace = :namespace AND uid = :uid;

-- name: newest_run
SELECT uid, id, newest, kind, name, version, queue, priority, flow_key, tags, state, reason, phase,
       due, deadline, worker, fence, seq, inbox, crashes, parent, parent_identity, root, cancel_with_parent,
       follows, link, attempt, origin, handler, parked_by, held_by, scheduled_at, created_at,
       started_at, finished_at, updated_at
FROM onward_run WHERE namespace = :namespace AND id = :id AND newest = 1;

-- name: run_end
-- `follower` is the run that follows it under the same id: waiters continue with that one.
SELECT r.uid, r.state, r.reason, d.input, d.args_hash, d.result, d.error, r.id, d.failed_call,
       d.progress, d.attributes,
       (SELECT f.uid FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1) AS follower,
       (SELECT f.link FROM onward_run f INDEXED BY onward_run_follows
        WHERE f.namespace = r.namespace AND f.follows = r.uid AND f.id = r.id LIMIT 1)
       AS follower_link
FROM onward_run r LEFT JOIN onward_run_data d ON d.namespace = r.namespace AND d.uid = r.uid
WHERE r.namespace = :namespace AND r.uid = :uid;

-- name: message_at
SELECT run, seq, message, kind, name, payload, sent_at, 0 AS is_omitted FROM onward_inbox
WHERE namespace = :namespace AND run = :run AND seq = :seq;

-- name: target_seen
-- The newest run of an id or else the run of a uid. The uid of one run may be the id of another, so
-- `by_uid` excludes ids.
SELECT uid, id, newest, 1 AS rank FROM onward_run
WHERE namespace = :namespace AND id = :target AND newest = 1 AND CAST(:by_uid AS BIGINT) = 0
UNION ALL
SELECT uid, id, newest, 2 AS rank FROM onward_run
WHERE namespace = :namespace AND uid = :target
ORDER BY rank LIMIT 1;

-- name: ids_and_states
SELECT r.uid, r.id, r.state FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value;

-- name: effect
SELECT key, run, identity, name, title, args, args_hash, state, version, attempt, asks, tries,
       reach, start_by, settle_until, known_until, due, result, error
FROM onward_effect WHERE namespace = :namespace AND key = :key;

-- name: timers_set_after
-- Runs that wait for a due time and parked, or wrote a wait, after the given instant.
SELECT count(*) FROM onward_run r INDEXED BY onward_run_waiting
WHERE r.namespace = :namespace AND r.state = 'waiting' AND r.due IS NOT NULL
  AND (r.updated_at > :instant
       OR EXISTS (SELECT 1 FROM onward_record h
                  WHERE h.namespace = :namespace AND h.run = r.uid AND h.seq IS NULL
                    AND h.due > :instant AND coalesce(h.closed_at, h.opened_at) > :instant AND h.name <> 'sleep_until'));
