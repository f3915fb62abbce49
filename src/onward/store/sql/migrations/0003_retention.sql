-- Runs that retention deletes. A row is written for each run of a family at once; from then on none
-- of them can be retried or forked, and their rows are deleted in any number of transactions. After
-- that the row of a run whose id a user chose stays until `until`, so that a repeated start is
-- recognised. `id` is null if the row reserves none.
CREATE TABLE onward_tombstone (
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    id TEXT,
    name TEXT NOT NULL,
    start_hash TEXT NOT NULL,
    state TEXT NOT NULL,
    finished_at INTEGER NOT NULL,
    marked_at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    is_deleted INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, uid)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_tombstone_id ON onward_tombstone (namespace, id, until) WHERE id IS NOT NULL;
CREATE INDEX onward_tombstone_marked ON onward_tombstone (namespace, uid) WHERE is_deleted = 0;
CREATE INDEX onward_tombstone_until ON onward_tombstone (namespace, until) WHERE is_deleted = 1;

-- Runs by state, and by queue: for retention and for lists. Those that another run started are apart, so
-- that the chunks of a large map are no hindrance to a list of the others. Each has a condition that holds
-- for every run, such as `uid > ''`. Only statements that repeat it can use the index, and claims do not.
CREATE INDEX onward_run_top ON onward_run (namespace, state, uid) WHERE parent IS NULL AND uid > '';
CREATE INDEX onward_run_child ON onward_run (namespace, kind, state, uid)
    WHERE parent IS NOT NULL AND uid > '';
CREATE INDEX onward_run_queue ON onward_run (namespace, queue, state, uid)
    WHERE parent IS NULL AND queue > '';
CREATE INDEX onward_run_queue_child ON onward_run (namespace, queue, state, uid)
    WHERE parent IS NOT NULL AND queue > '';
-- A fork of a chunk or of a routed step, for example.
CREATE INDEX onward_run_top_kind ON onward_run (namespace, kind, state, uid)
    WHERE parent IS NULL AND kind <> 'workflow' AND uid > '';
CREATE INDEX onward_run_name ON onward_run (namespace, name, state, uid) WHERE name > '';
CREATE INDEX onward_run_tags ON onward_run (namespace, tags, state, uid) WHERE tags <> '' AND uid > '';
-- What ready runs require of a worker, so that those which no worker can take are found among many. The
-- state is in it, and in the index of waiting runs, for counts: so these read nothing else.
CREATE INDEX onward_run_needs
    ON onward_run (namespace, queue, name, tags, (coalesce(version, '')), due, uid, state)
    WHERE state = 'ready' AND uid > '';
