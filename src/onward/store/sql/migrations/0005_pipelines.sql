-- Pipelines: topics and their events, the deliveries of events to consumers, the state of producers and
-- consumers, and the external inputs that events come from.

-- A pipeline that code has declared. `declared` is a hash of the declaration. The row named '' exists
-- if an operator has paused all pipelines.
CREATE TABLE onward_pipeline (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    parallel INTEGER NOT NULL DEFAULT 0,
    queue TEXT NOT NULL DEFAULT 'default',
    declared TEXT NOT NULL DEFAULT '',
    paused INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- `last` is the sequence number of the newest event: each publish locks the row, so that events are in
-- the order in which they were committed. `max_pending` and `max_age` are the limits beyond which
-- publishers are refused.
CREATE TABLE onward_topic (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    pipeline TEXT NOT NULL DEFAULT '',
    last INTEGER NOT NULL DEFAULT 0,
    max_pending INTEGER,
    max_age INTEGER,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- A producer or consumer. Its row with the key '' is its declaration; a consumer of a parallel pipeline
-- also has a row for each key of its events. Only one run of a `lane` is open at a time: all handlers of
-- a serial pipeline share one, and in a parallel pipeline each (handler, key) has its own.
--
-- The handler has work while `published` is greater than `seen`, or `wake_at` has passed. Everything
-- that gives it work raises `published`; a preparation that reserves nothing sets `seen` to the value
-- that it had read before it looked. `state_version` rises with every state that a run saved
-- (`saved_by`).
--
-- `next_id` and `next_slot` are the id and the scheduled time of the next run of a producer.
-- `blocked_by` is the run whose end blocks the handler: until code other than `blocked_code` is
-- deployed or an operator resumes it. `failures` counts the failed attempts at it since the last run
-- that succeeded. A handler that the newest declaration does not have is `removed`. `publishes` names the
-- topics that it may publish to, one a line.
CREATE TABLE onward_handler (
    namespace TEXT NOT NULL,
    handler TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    pipeline TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('producer', 'consumer')),
    queue TEXT NOT NULL DEFAULT 'default',
    lane TEXT NOT NULL,
    publishes TEXT NOT NULL DEFAULT '',
    state BLOB,
    state_version INTEGER NOT NULL DEFAULT 0,
    saved_by TEXT,
    published INTEGER NOT NULL DEFAULT 0,
    seen INTEGER NOT NULL DEFAULT 0,
    wake_at INTEGER,
    next_id TEXT,
    next_slot INTEGER,
    blocked_by TEXT,
    blocked_code TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, handler, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_handler_work ON onward_handler (namespace, handler, key)
    WHERE published > seen AND removed = 0;
CREATE INDEX onward_handler_wake ON onward_handler (namespace, wake_at)
    WHERE wake_at IS NOT NULL AND removed = 0;
CREATE INDEX onward_handler_blocked ON onward_handler (namespace, lane) WHERE blocked_by IS NOT NULL;
-- An index with all columns of another key behind one more would be taken for it while a table is empty.
CREATE INDEX onward_handler_pipeline ON onward_handler (namespace, pipeline) WHERE key = '';
CREATE INDEX onward_handler_removed ON onward_handler (namespace, handler) WHERE removed = 1;

-- Which consumer reads which topic. `consumed` and `skipped` count deliveries that have ended so.
-- `since` is the sequence number of the last event that was published before the subscription.
CREATE TABLE onward_subscription (
    namespace TEXT NOT NULL,
    topic TEXT NOT NULL,
    handler TEXT NOT NULL,
    keyed INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL DEFAULT 0,
    consumed INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, topic, handler)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_subscription_handler ON onward_subscription (namespace, handler, topic);

-- `message` is the id that the publisher gave the event, `run` the run that published it.
CREATE TABLE onward_event (
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    topic TEXT NOT NULL,
    seq INTEGER NOT NULL,
    message TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    payload BLOB NOT NULL,
    run TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, uid)
) STRICT, WITHOUT ROWID;

-- Of two indexes that look alike, Postgres takes the one that was made last while a table is empty, and
-- keeps that plan: so the index by which single rows are found comes last.
CREATE UNIQUE INDEX onward_event_seq ON onward_event (namespace, topic, seq);
CREATE UNIQUE INDEX onward_event_message ON onward_event (namespace, topic, message);

-- An event as one consumer sees it. `key` is that of the row of its handler. `attempt` rises each time it
-- becomes pending again, `replays` each time an operator has it handled again, and `releases` each time a
-- run gave it back for a fault that the event may have caused.
CREATE TABLE onward_delivery (
    namespace TEXT NOT NULL,
    handler TEXT NOT NULL,
    event TEXT NOT NULL,
    topic TEXT NOT NULL,
    seq INTEGER NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL CHECK (state IN ('pending', 'reserved', 'consumed', 'skipped')),
    run TEXT,
    attempt INTEGER NOT NULL DEFAULT 1,
    replays INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, handler, event),
    CHECK ((state = 'pending') = (run IS NULL) OR state = 'skipped')
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_delivery_pending ON onward_delivery (namespace, handler, topic, key, seq)
    WHERE state = 'pending';
CREATE INDEX onward_delivery_reserved ON onward_delivery (namespace, run) WHERE state = 'reserved';
CREATE INDEX onward_delivery_skipped ON onward_delivery (namespace, handler, updated_at)
    WHERE state = 'skipped';
CREATE INDEX onward_delivery_event ON onward_delivery (namespace, event);

-- Events published in a caller's own transaction: insert-only, so that an open transaction of a caller
-- locks no row of the engine. Workers move them into their topics.
CREATE TABLE onward_unpublished (
    seq INTEGER NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    topic TEXT NOT NULL,
    message TEXT NOT NULL,
    key TEXT NOT NULL DEFAULT '',
    payload BLOB NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX onward_unpublished_oldest ON onward_unpublished (namespace, seq);

-- An external thing that entered a pipeline. `open` counts the deliveries, pending or reserved, of events
-- that it caused, and `events` those events.
CREATE TABLE onward_input (
    namespace TEXT NOT NULL,
    uid TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    external TEXT NOT NULL,
    title TEXT NOT NULL,
    run TEXT,
    open INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    skipped_at INTEGER,
    skipped_by TEXT,
    skipped_why TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, uid)
) STRICT, WITHOUT ROWID;

-- With the pipeline first, so that no plan that is made while the table is empty uses these for a lookup by uid.
CREATE INDEX onward_input_newest ON onward_input (pipeline, namespace, created_at);
CREATE INDEX onward_input_open ON onward_input (namespace, pipeline, source, type, uid)
    WHERE skipped_at IS NULL AND (open > 0 OR events = 0);
CREATE INDEX onward_input_skipped ON onward_input (namespace, uid)
    WHERE skipped_at IS NOT NULL AND open > 0;
CREATE UNIQUE INDEX onward_input_external
    ON onward_input (pipeline, namespace, source, type, external);

-- How many inputs of a kind there have been: lists of inputs are not counted.
CREATE TABLE onward_input_count (
    namespace TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    registered INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, pipeline, source, type)
) STRICT, WITHOUT ROWID;

-- What an input has caused: an event, or a run that reserved such events, and so the effects of that run.
CREATE TABLE onward_cause (
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('event', 'run')),
    target TEXT NOT NULL,
    input TEXT NOT NULL,
    PRIMARY KEY (namespace, kind, target, input)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_cause_input ON onward_cause (namespace, input, kind, target);

-- The pipeline or the (handler, key) of which no other run may be open.
ALTER TABLE onward_run ADD COLUMN lane TEXT;
ALTER TABLE onward_run ADD COLUMN handler_key TEXT NOT NULL DEFAULT '';
CREATE UNIQUE INDEX onward_run_lane ON onward_run (namespace, lane)
    WHERE lane IS NOT NULL AND state IN ('ready', 'running', 'waiting', 'paused');
CREATE INDEX onward_run_handler ON onward_run (namespace, handler, uid) WHERE handler IS NOT NULL;
