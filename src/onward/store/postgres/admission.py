"""Which connections of callers may carry writes to a Postgres database."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.errors import StoreUnusable
from onward.store.callers.caller import (
    driver_connection,
    packages_of,
    refuse,
    refuse_without_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store.callers.caller import Caller
    from onward.store.statements import Statement

_KNOWN = frozenset({"asyncpg", "psycopg", "sqlalchemy"})
_ASYNC = "asyncpg, psycopg (AsyncConnection), or SQLAlchemy (async) over one of them"
_BLOCKING = "psycopg (Connection), or SQLAlchemy over it"


class Place(NamedTuple):
    """One database of one running server, as every connection to it sees it."""

    database: str
    server_started: int


class Home(NamedTuple):
    """The store's own side: what people call it, its schema, and how to learn its place.

    `place` is what is known, asked when the caller is; `locate` asks the server again.
    """

    where: str
    schema: str
    look: Statement
    place: Callable[[], Place | None]
    locate: Callable[[], Awaitable[None]]


class Admission:
    """Looks at a caller's connection to a Postgres database.

    Args:
        connection: What the caller gave.
        home: The store's own side.
        waits: The connection must be an async one; otherwise it must not be.

    Raises:
        StoreUnusable: it is of no kind that could be taken.
    """

    def __init__(self, connection: object, home: Home, *, waits: bool) -> None:
        self._connection = connection
        self._home = home
        self._waits = waits
        if not _KNOWN & packages_of(connection):
            raise self._refusal()

    async def __call__(self) -> Caller:
        """Return how to write through the connection.

        Raises:
            StoreUnusable: it is of another kind, leads to another database, is in no transaction,
                or may not insert.
        """
        home = self._home
        caller = _caller(
            await driver_connection(self._connection, waits=self._waits), waits=self._waits
        )
        if caller is None:
            raise self._refusal()
        values = home.look.arrange({"schema": home.schema})
        [[database, server_started, may_insert]] = await caller.fetch(home.look.sql, values)
        theirs = Place(database, server_started)
        if theirs != home.place() and self._waits:
            await home.locate()  # the server may have been started again since
        if theirs != home.place():
            raise self._refusal()
        if not await caller.is_in_transaction():
            raise refuse_without_transaction(self._connection)
        if not may_insert:
            raise StoreUnusable(
                f"the caller's transaction at {home.where}",
                "is read-only, or its user may not insert runs and messages",
                f"Grant USAGE on schema {home.schema}, and SELECT and INSERT on its tables",
            )
        return caller

    def _refusal(self) -> StoreUnusable:
        return refuse(self._connection, self._home.where, _ASYNC if self._waits else _BLOCKING)


def _caller(connection: object, *, waits: bool) -> Caller | None:
    packages = packages_of(connection)
    if waits and "asyncpg" in packages:
        from onward.store.callers import asyncpg

        return asyncpg.caller(connection)
    if "psycopg" in packages:
        from onward.store.callers import psycopg

        return psycopg.caller(connection, waits=waits)
    return None
