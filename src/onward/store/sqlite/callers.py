"""Connections of the `sqlite3` module, and of aiosqlite, which keeps one in a thread of its own.

Only those of the SQLite library that the store itself uses are taken. A second copy of the library
in one process does not see the first one's locks, and both would damage the file.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onward.errors import StoreUnusable, Unavailable
from onward.store.sqlite.library import is_busy, is_stale_snapshot, sqlite3

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onward.store.callers.caller import Caller

_NO_CHANGE = "DELETE FROM onward_outbox WHERE 0"
"""Takes the write lock, and begins a transaction if the connection does that implicitly."""


class SqliteCaller:
    """A connection of the `sqlite3` module; its `fetch` never suspends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        cursor = self._connection.cursor()
        cursor.row_factory = None  # the caller's own may give anything but tuples
        with _locks_explained():
            rows: Sequence[Sequence[Any]] = cursor.execute(sql, tuple(values)).fetchall()
        return rows

    async def prepare_to_write(self) -> None:
        """Take the lock for writing, if a transaction has begun.

        One that reads first cannot write any more once another connection has committed.
        """
        if self._connection.in_transaction:
            await self.fetch(_NO_CHANGE)

    async def is_in_transaction(self) -> bool:
        """Return whether a write would wait for the caller's commit."""
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
            with _locks_explained():
                await cursor.execute(sql, tuple(values))
                rows: Sequence[Sequence[Any]] = await cursor.fetchall()
            return rows

    async def prepare_to_write(self) -> None:
        """Take the lock for writing, if a transaction has begun; see `SqliteCaller`."""
        if self._connection.in_transaction:
            await self.fetch(_NO_CHANGE)

    async def is_in_transaction(self) -> bool:
        """Return whether a write would wait for the caller's commit."""
        await self.fetch(_NO_CHANGE)
        return bool(self._connection.in_transaction)


@contextmanager
def _locks_explained() -> Iterator[None]:
    """Translate "database is locked", which has two causes and a remedy for each."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if is_stale_snapshot(error):
            raise StoreUnusable(
                "your transaction",
                "cannot write, because another connection has committed since your transaction "
                "first read",
                "Roll back, and start the transaction again with BEGIN IMMEDIATE",
            ) from error
        if is_busy(error):
            raise Unavailable(
                "the SQLite file",
                "was locked by another connection for longer than the timeout of your connection",
                "Roll back and try again, or connect with a longer timeout",
            ) from error
        raise


def caller(connection: object, packages: frozenset[str], *, waits: bool) -> Caller | None:
    """Return how to write through a connection, if it is one of our SQLite library."""
    if isinstance(connection, sqlite3.Connection):
        return SqliteCaller(connection)
    if waits and "aiosqlite" in packages:
        import aiosqlite

        if isinstance(connection, aiosqlite.Connection) and aiosqlite.Error is sqlite3.Error:
            return AiosqliteCaller(connection)
    return None
