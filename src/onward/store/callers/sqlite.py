"""Connections of the `sqlite3` module, and of aiosqlite, which keeps one in a thread of its own.

Only those of the SQLite library that the store itself uses are taken. A second copy of the library
in one process does not see the first one's locks, and both would damage the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.store.sqlite.library import sqlite3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.store.callers.caller import Caller

_NO_CHANGE = "DELETE FROM onward_mark WHERE 0"
"""What begins a transaction, if the connection is one that begins them before it writes."""


class SqliteCaller:
    """A connection of the `sqlite3` module; its `fetch` never really waits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        cursor = self._connection.cursor()
        cursor.row_factory = None  # the caller's own may give anything but tuples
        rows: Sequence[Sequence[Any]] = cursor.execute(sql, tuple(values)).fetchall()
        return rows

    async def is_in_transaction(self) -> bool:
        """Say whether a write would wait for the caller's commit."""
        await self.fetch(_NO_CHANGE)
        return self._connection.in_transaction


class AiosqliteCaller:
    """A connection of aiosqlite."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        async with self._connection.cursor() as cursor:
            cursor.row_factory = None
            await cursor.execute(sql, tuple(values))
            rows: Sequence[Sequence[Any]] = await cursor.fetchall()
            return rows

    async def is_in_transaction(self) -> bool:
        """Say whether a write would wait for the caller's commit."""
        await self.fetch(_NO_CHANGE)
        return bool(self._connection.in_transaction)


def caller(connection: object, packages: frozenset[str], *, waits: bool) -> Caller | None:
    """Return how to write through a connection, if it is one of our SQLite library."""
    if isinstance(connection, sqlite3.Connection):
        return SqliteCaller(connection)
    if waits and "aiosqlite" in packages:
        import aiosqlite

        if isinstance(connection, aiosqlite.Connection) and aiosqlite.Error is sqlite3.Error:
            return AiosqliteCaller(connection)
    return None
