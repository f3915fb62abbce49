-- Results of steps that other runs may use, until they expire. The key is a hash of the name of the step,
-- its declared version, and its arguments or what the user calls their key. `run` is the one that wrote it.
CREATE TABLE onward_cache (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    step TEXT NOT NULL,
    version TEXT NOT NULL DEFAULT '',
    run TEXT NOT NULL,
    payload BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX onward_cache_expiry ON onward_cache (namespace, expires_at);
CREATE INDEX onward_cache_step ON onward_cache (namespace, step, key);
