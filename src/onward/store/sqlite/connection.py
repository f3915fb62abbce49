"""Connections to a SQLite database: how they are opened, configured and migrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.errors import StoreUnusable
from onward.store.migrations import missing
from onward.store.sqlite.clock import SavedTime
from onward.store.sqlite.library import OLDEST, sqlite3
from onward.store.sqlite.transaction import BUSY_SECONDS
from onward.store.statements import Dialect
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from pathlib import Path

DIALECT = Dialect()

_WRITER = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # Checkpoints are rarer than by default, so that a page written often is copied once.
    "PRAGMA wal_autocheckpoint = 8000",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -16384",
)
_READER = ("PRAGMA wal_autocheckpoint = 0", "PRAGMA cache_size = -16384")


def check_library(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Refuse a SQLite library that is too old.

    Raises:
        StoreUnusable: it is older than `OLDEST`.
    """
    if version < OLDEST:
        raise StoreUnusable(
            f"SQLite {'.'.join(map(str, version))}",
            f"is older than {'.'.join(map(str, OLDEST))}",
            "Install a newer version: pip install 'onward[sqlite]'",
        )


def connect(path: Path | None, *, writes: bool = True) -> sqlite3.Connection:
    """Open a connection with the settings of the store."""
    name = (
        ":memory:"
        if path is None
        else f"{path.absolute().as_uri()}?mode={'rwc' if writes else 'ro'}"
    )
    connection = sqlite3.connect(
        name,
        uri=path is not None,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_SECONDS,
        cached_statements=256,
    )
    try:
        for setting in _WRITER if writes else _READER:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Bring the database to the schema that this code knows."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, text in missing(schema_number(connection), where):
            failpoint("migrate.before")
            for statement in DIALECT.script(text):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO onward_meta VALUES ('schema', ?1)"
                " ON CONFLICT DO UPDATE SET value = excluded.value",
                (number,),
            )
        connection.execute(
            "INSERT INTO onward_meta VALUES ('time', 0), ('time_resets', 0) ON CONFLICT DO NOTHING"
        )
        connection.execute("COMMIT")
        failpoint("migrate.after")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def kept_time(connection: sqlite3.Connection) -> SavedTime:
    """Return the time that the file stores."""
    return SavedTime._make(connection.execute(DIALECT.statements()["read_time"].sql).fetchone())


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits."""
    [[version]] = connection.execute("PRAGMA data_version")
    return int(version)


def schema_number(connection: sqlite3.Connection) -> int:
    """Return the number of the schema in this database; 0 if there is none."""
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'onward_meta'").fetchall()
    if not there:
        return 0
    rows = connection.execute("SELECT value FROM onward_meta WHERE name = 'schema'").fetchall()
    return int(rows[0][0]) if rows else 0
