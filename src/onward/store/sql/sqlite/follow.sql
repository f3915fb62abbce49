-- name: keep_aside
-- What was finished from `cut` on beside the call that failed, and what it noted: the outcome under
-- another identity and without a position, for the new run has not asked for it yet.
INSERT INTO onward_record (
    namespace, run, identity, attempt, seq, kind, name, state, args_hash, version, payload,
    opened_at, closed_at)
SELECT h.namespace, CAST(:new_uid AS TEXT), '=memo.' || h.identity, 1, NULL, 'memo',
       h.kind || ' ' || h.name, h.state, h.args_hash, h.version, h.payload, h.opened_at, h.closed_at
FROM onward_record h
WHERE h.namespace = :namespace AND h.run = :old AND h.state = 'succeeded' AND (
    h.seq >= :cut AND h.identity IN (SELECT value FROM json_each(:beside))
    OR h.kind = 'note' AND h.identity IN (SELECT '=note.of.' || value FROM json_each(:beside)));
