-- What a server reads before it checks a commit of a remote worker.

-- name: event_deliveries
SELECT d.event, d.attempt, d.replays FROM onward_delivery d
WHERE d.namespace = :namespace AND d.handler = :handler AND d.key = :key
  AND d.event IN (SELECT value FROM json_each(:events));

-- name: effect_approvals
-- What an operator has approved, if the next version would replace it: see `write_effect`.
SELECT e.key, e.version, e.approved,
       CASE WHEN e.verdict = 'approve' AND e.state IN ('failed', 'withdrawn') THEN 1 ELSE 0 END,
       e.title, e.args, e.args_hash
FROM onward_effect e
WHERE e.namespace = :namespace AND e.key IN (SELECT value FROM json_each(:keys));

-- Those of some runs that a run has started, or another one whose attempt it repeats.
-- name: children_among
WITH RECURSIVE chain (uid, follows, link) AS (
    SELECT r.uid, r.follows, r.link FROM onward_run r
    WHERE r.namespace = :namespace AND r.uid = :run
    UNION ALL
    SELECT r.uid, r.follows, r.link
    FROM chain c
    JOIN onward_run r ON r.namespace = :namespace AND r.uid = c.follows
    WHERE c.link IN ('retry_of', 'forked_from')
)
SELECT r.uid FROM onward_run r
WHERE r.namespace = :namespace AND r.uid IN (SELECT value FROM json_each(:uids))
  AND r.parent IN (SELECT c.uid FROM chain c);

-- What checks need to know of those of some runs that a worker has, or that no worker has: it may have
-- parked or ended them, and not know it yet.
-- name: held_runs
SELECT r.uid, r.fence, r.kind, r.parent, r.parent_identity, r.root, r.origin, r.handler, r.handler_key
FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
WHERE r.worker IS NULL OR r.worker = :worker;

-- Those of some runs that are in one of these queues.
-- name: runs_in_queues
SELECT r.uid FROM json_each(:uids) j
CROSS JOIN onward_run r ON r.namespace = :namespace AND r.uid = j.value
WHERE r.queue IN (SELECT value FROM json_each(:queues));
