-- Runs, their histories and inboxes, the leases that guard them, and the ledger of effects.
--
-- Instants and durations are integer microseconds, UTC. Payloads are bytes that begin with the
-- tag of their codec. The namespace comes first in every key, so nothing can cross it by mistake.

CREATE TABLE onward_meta (
    name TEXT NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Steps of the database's clock that workers saw: waits that began at `began_by` or before last `step`
-- longer by the new time. A step back takes away what a step forward added, with a row of its own.
CREATE TABLE onward_clock_step (
    namespace TEXT NOT NULL,
    seq INTEGER NOT NULL,
    began_by INTEGER NOT NULL,
    step INTEGER NOT NULL,
    PRIMARY KEY (namespace, began_by, seq)
) STRICT, WITHOUT ROWID;

-- A worker is alive while its row is here. Renewing moves `renewed_at`; takeover deletes the row.
-- Its worker has renewed it without a gap since `steady_since`.
CREATE TABLE onward_lease (
    namespace TEXT NOT NULL,
    worker TEXT NOT NULL,
    renewed_at INTEGER NOT NULL,
    length INTEGER NOT NULL,
    steady_since INTEGER NOT NULL,
    PRIMARY KEY (namespace, worker)
) STRICT, WITHOUT ROWID;

-- What operators see of a worker; nothing is decided by it.
CREATE TABLE onward_worker (
    namespace TEXT NOT NULL,
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT,
    queues TEXT NOT NULL,
    tags TEXT NOT NULL DEFAULT '',
    names TEXT NOT NULL,
    schedules TEXT NOT NULL DEFAULT '',
    slots INTEGER NOT NULL DEFAULT 0,
    draining INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER NOT NULL,
    left_at INTEGER,
    PRIMARY KEY (namespace, worker)
) STRICT, WITHOUT ROWID;

-- Narrow on purpose: each claim rewrites the row. Payloads are in onward_run_data.
--
-- `root` is the topmost run of its tree, and a `cancel_with_parent` run is cancelled when its parent ends.
-- `follows` is the run before it under the same id and `link` says how. `chain` is the uid of the run
-- with which its chain was started (null: its own). The keys of effects are made
-- of `origin`, or else of the uid: in a line of retries it is the uid of the first, in a child that
-- ends with its parent a hash of the parent's and of the call. `parked_by` lists the code that did
-- not fit its history, `held_by` the uids of the runs whose pause holds it. A run that failed or timed
-- out has the type of its error, or its reason if it has none, as `error_type`, and the name of the call
-- whose error ended it as `failed_step`; `discarded_at` is when an operator decided that it stays failed.
-- `flow_key` is null for a run that nothing limits; it is the key by which the run is limited, or '' if only its queue or its
-- workflow is. A run that `holds` takes the place of one even while it waits.
-- `schedule` is the one that started it.
CREATE TABLE onward_run (
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    id TEXT NOT NULL,
    newest INTEGER NOT NULL DEFAULT 1,
    kind TEXT NOT NULL CHECK (kind IN ('workflow', 'step', 'map', 'producer', 'consumer')),
    name TEXT NOT NULL,
    version TEXT,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 0,
    flow_key TEXT,
    tags TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN (
        'ready', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'cancelled', 'timed_out')),
    reason TEXT,
    phase TEXT,
    due INTEGER,
    deadline INTEGER,
    worker TEXT,
    fence INTEGER NOT NULL DEFAULT 0,
    seq INTEGER NOT NULL DEFAULT 0,
    inbox INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    parent TEXT,
    parent_identity TEXT,
    root TEXT,
    cancel_with_parent INTEGER NOT NULL DEFAULT 0,
    follows TEXT,
    link TEXT CHECK (link IN ('retry_of', 'continued_from', 'forked_from', 'replaces')),
    chain TEXT,
    attempt INTEGER NOT NULL DEFAULT 1,
    origin TEXT,
    handler TEXT,
    schedule TEXT,
    parked_by TEXT NOT NULL DEFAULT '',
    held_by TEXT NOT NULL DEFAULT '',
    error_type TEXT NOT NULL DEFAULT '',
    failed_step TEXT NOT NULL DEFAULT '',
    discarded_at INTEGER,
    holds INTEGER NOT NULL DEFAULT 0,
    scheduled_at INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, uid),
    CHECK ((state = 'running') = (worker IS NOT NULL)),
    CHECK (state <> 'ready' OR due IS NOT NULL),
    CHECK ((follows IS NULL) = (link IS NULL)),
    CHECK (discarded_at IS NULL OR state IN ('failed', 'timed_out'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX onward_run_newest ON onward_run (namespace, id) WHERE newest = 1;
CREATE INDEX onward_run_ready ON onward_run (
    namespace, queue, priority DESC,
    (CASE WHEN fence > 0 THEN 0 WHEN parent IS NOT NULL THEN 1 ELSE 2 END), due, uid)
    WHERE state = 'ready' AND flow_key IS NULL;
CREATE INDEX onward_run_waiting ON onward_run (namespace, due, state) WHERE state = 'waiting';
CREATE INDEX onward_run_running ON onward_run (namespace, worker, state, queue, name)
    WHERE state = 'running';
CREATE INDEX onward_run_paused ON onward_run (namespace, reason) WHERE state = 'paused';
CREATE INDEX onward_run_suspect ON onward_run (namespace, uid)
    WHERE crashes > 0 AND state IN ('ready', 'running', 'waiting');
CREATE INDEX onward_run_parent ON onward_run (namespace, parent) WHERE parent IS NOT NULL;
CREATE INDEX onward_run_follows ON onward_run (namespace, follows) WHERE follows IS NOT NULL;
CREATE INDEX onward_run_deadline ON onward_run (namespace, deadline)
    WHERE deadline IS NOT NULL AND state IN ('ready', 'running', 'waiting', 'paused');
CREATE INDEX onward_run_schedule ON onward_run (namespace, schedule)
    WHERE schedule IS NOT NULL AND state IN ('ready', 'running', 'waiting', 'paused');
-- Dead letters: by age, and by what failed. A run that ends with its parent is none: its parent received the error.
CREATE INDEX onward_run_dead ON onward_run (namespace, uid)
    WHERE state IN ('failed', 'timed_out') AND newest = 1 AND cancel_with_parent = 0
      AND discarded_at IS NULL;
CREATE INDEX onward_run_dead_group
    ON onward_run (namespace, name, error_type, failed_step, finished_at)
    WHERE state IN ('failed', 'timed_out') AND newest = 1 AND cancel_with_parent = 0
      AND discarded_at IS NULL;
-- Runs under flow control have indexes of their own, so that many of them behind one limit do not slow
-- down claims of other runs. The state is in some indexes, so that a claim counts and passes by keys without
-- room in the index alone.
CREATE INDEX onward_run_flow ON onward_run (
    namespace, queue, priority DESC, flow_key, name,
    (CASE WHEN fence > 0 THEN 0 WHEN parent IS NOT NULL THEN 1 ELSE 2 END), due, uid, state)
    WHERE state = 'ready' AND flow_key IS NOT NULL;
CREATE INDEX onward_run_flow_running ON onward_run (namespace, queue, flow_key, state)
    WHERE state = 'running' AND flow_key IS NOT NULL;
CREATE INDEX onward_run_flow_due ON onward_run (namespace, due)
    WHERE state = 'waiting' AND flow_key IS NOT NULL;
CREATE INDEX onward_run_holding ON onward_run (namespace, queue, name, flow_key, state, holds)
    WHERE holds = 1 AND state IN ('ready', 'waiting', 'paused');

-- What limits the runs of a queue, of a workflow, or of a key of the queue `scope` ('*': of every key
-- that has no row of its own), and the sends of an effect. `declared_` is what the code says, and
-- `operator_` what an operator said, which wins. `max`: how many runs may be running at a time, or
-- with `hold` 'open' be between their first claim and their end. `count` and `period`: how many may
-- start within any period; `starts` are the latest ones, and `next_at` is when the next may be.
-- `turns` are those of the keys of a queue. The row of a key for which nothing is set is there for its
-- starts, and can go at `forget_at`. A claim that counts locks the rows.
CREATE TABLE onward_flow (
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('queue', 'workflow', 'key', 'effect')),
    scope TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    declared_max INTEGER,
    operator_max INTEGER,
    declared_count INTEGER,
    declared_period INTEGER,
    operator_count INTEGER,
    operator_period INTEGER,
    declared_hold TEXT CHECK (declared_hold IN ('running', 'open')),
    operator_hold TEXT CHECK (operator_hold IN ('running', 'open')),
    weight INTEGER NOT NULL DEFAULT 1,
    paused INTEGER NOT NULL DEFAULT 0,
    starts TEXT NOT NULL DEFAULT '',
    next_at INTEGER,
    turns TEXT NOT NULL DEFAULT '',
    forget_at INTEGER,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, kind, scope, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_flow_next ON onward_flow (namespace, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX onward_flow_forget ON onward_flow (namespace, forget_at) WHERE forget_at IS NOT NULL;
-- The keys for which something is set: the others have the limits of every key.
CREATE INDEX onward_flow_set ON onward_flow (namespace, scope, name)
    WHERE kind = 'key' AND (
        weight <> 1 OR declared_max IS NOT NULL OR operator_max IS NOT NULL
        OR declared_count IS NOT NULL OR operator_count IS NOT NULL
        OR declared_hold IS NOT NULL OR operator_hold IS NOT NULL OR paused = 1);
-- What keeps runs out of the first index of ready runs.
CREATE INDEX onward_flow_restricting ON onward_flow (namespace, kind, name)
    WHERE kind IN ('queue', 'workflow') AND (
        paused = 1 OR declared_max IS NOT NULL OR operator_max IS NOT NULL
        OR declared_count IS NOT NULL OR operator_count IS NOT NULL);

-- `start_hash` is the `args_hash` of the start that began the chain (null: of this run), so that the
-- start is recognised when it is repeated after the run was continued. `failed_call` is the call whose
-- error ended the run; `attributes` are those it began with; `retry` is how it is to be retried as a
-- whole. `beginning` is set where a run repeats calls of another: when that one started, and what its
-- draws are made of. `delay` is how long after its creation it starts (null: at once, or at a given
-- time). `discarded_by` and `discarded_why` say who discarded a dead letter, and why.
CREATE TABLE onward_run_data (
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    input BLOB NOT NULL,
    args_hash TEXT NOT NULL,
    start_hash TEXT,
    result BLOB,
    error BLOB,
    failed_call TEXT,
    progress BLOB,
    attributes BLOB,
    retry TEXT,
    trace TEXT,
    beginning TEXT,
    delay INTEGER,
    discarded_by TEXT,
    discarded_why TEXT,
    PRIMARY KEY (namespace, uid)
) STRICT, WITHOUT ROWID;

-- A run's history. `seq` is the position at which the outcome was handed to the run (null while
-- open); `message` is the inbox number that closed it. A step is written when an attempt is over, and its
-- `opened_at` counts back from then. `args` are its arguments, for people. It keeps its row numbers: appending rows and
-- sorting only their keys writes a quarter less than sorting the rows themselves.
CREATE TABLE onward_record (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    identity TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'succeeded', 'failed', 'timed_out', 'cancelled')),
    args_hash TEXT,
    version TEXT,
    due INTEGER,
    message INTEGER,
    payload BLOB,
    error BLOB,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    args BLOB,
    PRIMARY KEY (namespace, run, identity, attempt)
) STRICT;

-- What others send to a run. Only senders write here; the run's owner reads. `chain` is that of the
-- run: a signal that any run of the chain was sent is not delivered to it again.
CREATE TABLE onward_inbox (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    seq INTEGER NOT NULL,
    chain TEXT NOT NULL,
    message TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    payload BLOB,
    sent_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, run, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX onward_inbox_message ON onward_inbox (namespace, chain, message, run);

-- Messages written in a caller's own transaction: insert-only, so that an open transaction of a caller
-- locks no row of the engine. Workers, and senders to the same run, move them into its inbox. `target`
-- is the id of the run. The database assigns `seq`, so that no sender's clock decides their order.
CREATE TABLE onward_outbox (
    seq INTEGER NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    target TEXT NOT NULL,
    message TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    payload BLOB,
    wakes TEXT NOT NULL DEFAULT '',
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX onward_outbox_oldest ON onward_outbox (namespace, seq);
CREATE INDEX onward_outbox_target ON onward_outbox (namespace, target, seq);

-- The ledger. `version` rises with every change and guards it.
--
-- `reconciler`, `tries` and `reach` are options of the effect, stored for readers without the code:
-- the name of its reconciler ('': it has none), how often it is sent (null: without limit), and how long after its
-- intent a send can arrive. `known_until` is until when the receiver knows the key. `asked` is
-- the position up to which the run had read its history when it made the call. `returns` is the
-- annotation of its result and what that is in JSON, so that a verdict can be checked without the code.
-- `attempts` are its sends and the answers of its reconciler, for operators: JSON, the latest last.
CREATE TABLE onward_effect (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    run TEXT NOT NULL,
    identity TEXT NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    args BLOB NOT NULL,
    args_hash TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN (
        'planned', 'in_flight', 'applied', 'failed', 'needs_reconcile', 'indeterminate', 'skipped',
        'withdrawn')),
    version INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    asks INTEGER NOT NULL DEFAULT 0,
    approved INTEGER NOT NULL DEFAULT 1,
    reconciler TEXT NOT NULL DEFAULT '',
    tries INTEGER,
    reach INTEGER NOT NULL DEFAULT 0,
    start_by INTEGER,
    settle_until INTEGER,
    known_until INTEGER,
    due INTEGER,
    result BLOB,
    error BLOB,
    asked INTEGER NOT NULL DEFAULT 0,
    verdict TEXT,
    decided_by TEXT,
    decided_why TEXT,
    decided_at INTEGER,
    returns TEXT NOT NULL DEFAULT '',
    attempts BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

-- Partial, so that no plan for a lookup by key can use it to read a whole namespace.
CREATE INDEX onward_effect_run ON onward_effect (namespace, run, key) WHERE run IS NOT NULL;
CREATE INDEX onward_effect_open ON onward_effect (namespace, state)
    WHERE state IN ('planned', 'in_flight', 'needs_reconcile', 'indeterminate');
