-- Rules that start runs, and the disposition of each of their slots.

-- A slot is later than `decided_to` or has a disposition. A later one may have a run, which it got while
-- the clock was ahead. `look_at` is when a worker looks at the
-- schedule again: at its next slot, or at once while `held`, a slot that waits for open runs to end.
-- `anchor` is where the grid of an interval begins. `options` are those of its runs, as JSON. Every
-- change raises `version`, and is made only if the version is still the one that was read.
--
-- `declared` is a hash of what the code declares (empty: no code does), and `overrides` lists the
-- fields that were changed since by hand, which a deploy leaves alone.
CREATE TABLE onward_schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    workflow TEXT NOT NULL,
    input BLOB NOT NULL,
    args_hash TEXT NOT NULL,
    options TEXT NOT NULL,
    cron TEXT,
    every INTEGER,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL CHECK (overlap IN ('allow', 'skip', 'coalesce', 'replace')),
    catch_up TEXT NOT NULL CHECK (catch_up IN ('skip', 'latest', 'all')),
    cap INTEGER NOT NULL,
    jitter INTEGER NOT NULL,
    anchor INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'parked')),
    error TEXT,
    decided_to INTEGER NOT NULL,
    look_at INTEGER,
    held INTEGER,
    declared TEXT NOT NULL DEFAULT '',
    overrides TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name),
    CHECK ((cron IS NULL) <> (every IS NULL)),
    CHECK ((state = 'parked') = (error IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_schedule_due ON onward_schedule (namespace, look_at)
    WHERE state = 'active' AND look_at IS NOT NULL;

-- `decided_to > 0` holds always; it keeps Postgres from using this index for schedules that are due.
CREATE INDEX onward_schedule_decided ON onward_schedule (namespace, decided_to)
    WHERE state <> 'parked' AND decided_to > 0;

-- One slot, or `slots` neighbours of one disposition from `at` to `until`, except those that have a
-- row of their own. `timing` is the rule by which they were slots, which may have changed since.
CREATE TABLE onward_slot (
    namespace TEXT NOT NULL,
    schedule TEXT NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    slots INTEGER NOT NULL,
    disposition TEXT NOT NULL CHECK (disposition IN (
        'started', 'missed', 'capped', 'overlapped', 'coalesced', 'paused', 'backfilled',
        'triggered')),
    run TEXT,
    timing TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, schedule, at, until),
    CHECK (slots = 1 OR run IS NULL)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_slot_newest ON onward_slot (namespace, schedule, until, at);
