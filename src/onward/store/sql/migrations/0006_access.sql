-- Namespaces and API keys of servers. They are about all namespaces of a database; an embedded App
-- needs neither.

-- A namespace that an administrator has made. One that is not enabled takes no new runs and events from
-- clients of a server.
CREATE TABLE onward_namespace (
    name TEXT NOT NULL PRIMARY KEY,
    title TEXT NOT NULL DEFAULT '',
    enabled INTEGER NOT NULL DEFAULT 1,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `scopes` has one scope a line. `secret_hash` begins with the name of its algorithm. `last_used_at` is
-- written about once an hour. A key that is revoked stays, so that its id is never used again and a
-- server whose keys are all revoked is not taken for one that has none.
CREATE TABLE onward_api_key (
    id TEXT NOT NULL PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL DEFAULT '',
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_api_key_namespace ON onward_api_key (namespace, created_at);

-- The key with which a remote worker has joined: servers do nothing for the worker with another one. It is
-- '' for workers that open the database themselves, and for those of a server without keys.
ALTER TABLE onward_worker ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
