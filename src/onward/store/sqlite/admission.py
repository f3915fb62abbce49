"""Which connections of callers may carry writes to a SQLite database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onward.errors import StoreUnusable
from onward.store.callers import sqlite
from onward.store.callers.caller import (
    driver_connection,
    packages_of,
    refuse,
    refuse_without_transaction,
)
from onward.store.sqlite.library import has_wal_reset_bug, sqlite3

if TYPE_CHECKING:
    from onward.store.callers.caller import Caller
    from onward.store.sqlite.files import Locks

_KNOWN = frozenset({"aiosqlite", "sqlalchemy", "sqlite3", "pysqlite3"})


class Admission:
    """Looks at a caller's connection to a SQLite database.

    Args:
        connection: What the caller gave.
        path: The store's file; `None` is a database in memory.
        locks: The lock files beside it.
        where: What people call the store.
        waits: The connection may be an async one.

    Raises:
        StoreUnusable: it is of no kind that could be taken.
    """

    def __init__(
        self,
        connection: object,
        path: Path | None,
        locks: Locks | None,
        where: str,
        *,
        waits: bool,
    ) -> None:
        self._connection = connection
        self._path = path
        self._locks = locks
        self._where = where
        self._waits = waits
        if not _KNOWN & packages_of(connection):
            raise self._refusal()

    async def __call__(self) -> Caller:
        """Return how to write through the connection.

        Raises:
            StoreUnusable: it is of another kind, leads to another file or is in no transaction, or
                another process uses the file and the SQLite library is one whose commits must not
                meet another's checkpoint.
        """
        inner = await driver_connection(self._connection, waits=self._waits)
        caller = sqlite.caller(inner, packages_of(inner), waits=self._waits)
        if caller is None or not await _reaches(caller, self._path):
            raise self._refusal()
        if has_wal_reset_bug() and self._locks is not None and not self._locks.alone():
            raise StoreUnusable(
                f"the SQLite library {sqlite3.sqlite_version}",
                "may damage a file when a caller's transaction commits beside another process",
                "Install a newer one: pip install 'onward[sqlite]'",
            )
        if not await caller.is_in_transaction():
            raise refuse_without_transaction(self._connection)
        return caller

    def _refusal(self) -> StoreUnusable:
        ours = sqlite3.__name__  # with the [sqlite] extra it is not the interpreter's
        taken = f"{ours}, aiosqlite" if self._waits else ours
        return refuse(self._connection, self._where, f"{taken}, or SQLAlchemy over it")


async def _reaches(caller: Caller, path: Path | None) -> bool:
    """Say whether a caller's connection is one to the database at `path`."""
    [_, _, name] = (await caller.fetch("PRAGMA database_list"))[0]
    if path is not None:
        return bool(name) and _is_same(name, path)
    there = await caller.fetch("SELECT 1 FROM sqlite_master WHERE name = 'onward_mark'")
    return not name and bool(there)


def _is_same(name: str, path: Path) -> bool:
    return Path(name).samefile(path)
