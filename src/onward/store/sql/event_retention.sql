-- Retention of events and inputs. What is pending is never deleted.

-- part: steps_since
-- A clock that is set forward makes nothing older (clock_steps.sql).
(SELECT CAST(coalesce(sum(s.step), 0) AS BIGINT) FROM onward_clock_step s
 WHERE s.namespace = :namespace AND s.began_by >= t.settled_at)

-- name: has_pipelines
SELECT EXISTS (SELECT 1 FROM onward_topic WHERE namespace = :namespace);

-- name: old_events
-- Events by age, each with when its last delivery ended; null while one is pending or reserved.
SELECT t.uid, t.settled_at + {steps_since}
FROM (SELECT e.uid,
             CASE WHEN (SELECT 1 FROM onward_delivery d INDEXED BY onward_delivery_event
                        WHERE d.namespace = e.namespace AND d.event = e.uid
                          AND d.state IN ('pending', 'reserved') LIMIT 1) IS NULL
                  THEN coalesce((SELECT max(d.updated_at) FROM onward_delivery d INDEXED BY onward_delivery_event
                                 WHERE d.namespace = e.namespace AND d.event = e.uid), e.created_at)
                  END AS settled_at
      FROM onward_event e
      WHERE e.namespace = :namespace AND e.uid > :after AND e.uid < :below
      ORDER BY e.uid LIMIT :limit) t
ORDER BY t.uid;

-- name: old_inputs
-- Inputs by age, with whether they may go: they are done or skipped, and what they caused is deleted.
SELECT i.uid,
       i.open = 0 AND (i.events > 0 OR i.skipped_at IS NOT NULL)
       AND (SELECT 1 FROM onward_cause c INDEXED BY onward_cause_input
            WHERE c.namespace = i.namespace AND c.input = i.uid LIMIT 1) IS NULL
FROM onward_input i
WHERE i.namespace = :namespace AND i.uid > :after AND i.uid < :below
ORDER BY i.uid LIMIT :limit;

-- name: count_deliveries_of
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_delivery h INDEXED BY onward_delivery_event
    ON h.namespace = :namespace AND h.event = j.value;

-- name: count_event_causes
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_cause h ON h.namespace = :namespace AND h.kind = 'event' AND h.target = j.value;

-- name: count_run_causes
SELECT count(*) FROM json_each(:uids) j
CROSS JOIN onward_cause h ON h.namespace = :namespace AND h.kind = 'run' AND h.target = j.value;

-- name: lock_old_inputs
SELECT i.uid, i.pipeline, i.source, i.type, i.skipped_at, i.open FROM json_each(:uids) u
CROSS JOIN onward_input i ON i.namespace = :namespace AND i.uid = u.value
FOR UPDATE;

-- name: uncount_inputs
UPDATE onward_input_count
SET registered = registered - CAST(:registered AS BIGINT), skipped = skipped - CAST(:skipped AS BIGINT)
WHERE namespace = :namespace AND pipeline = :pipeline AND source = :source AND type = :type;
