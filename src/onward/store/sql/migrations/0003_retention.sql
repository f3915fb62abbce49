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

-- Runs that have ended, by state: for retention and for lists. Partial, so that no plan for a lookup by
-- uid can use it to read a whole namespace.
CREATE INDEX onward_run_ended ON onward_run (namespace, state, uid) WHERE finished_at IS NOT NULL;
-- Open runs by state, for lists.
CREATE INDEX onward_run_open ON onward_run (namespace, state, uid) WHERE finished_at IS NULL;
-- Runs by workflow and state, for lists. The condition holds for every run; only statements that repeat it
-- can use the index, and claims do not.
CREATE INDEX onward_run_name ON onward_run (namespace, name, state, uid) WHERE created_at > 0;
