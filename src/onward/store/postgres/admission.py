"""Which connections of callers may carry writes to a Postgres database."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.errors import StoreUnusable
from onward.store.callers.admission import Admission, packages_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store.callers.caller import Caller
    from onward.store.statements import Statement


class ServerIdentity(NamedTuple):
    """One database of one running server, as every connection to it sees it."""

    database: str
    server_started: int


class Home(NamedTuple):
    """The store's own side.

    `channel` is where its workers listen. `look` asks a connection where it is, `place` is where
    the store knows itself to be, and `locate` lets it find that out again.
    """

    schema: str
    channel: str
    look: Statement
    place: Callable[[], ServerIdentity | None]
    locate: Callable[[], Awaitable[None]]


class PostgresAdmission(Admission):
    """Accepts connections to the database of the store."""

    known = frozenset({"asyncpg", "psycopg", "sqlalchemy"})

    def __init__(self, connection: object, where: str, home: Home, *, waits: bool) -> None:
        super().__init__(connection, where, waits=waits)
        self._home = home

    async def _examined(self, inner: object) -> Caller:
        caller = _caller(inner, waits=self._waits)
        if caller is None:
            raise self._refusal()
        home = self._home
        values = home.look.arrange({"schema": home.schema})
        looked = await caller.fetch(home.look.sql, values)
        [[database, server_started, may_insert, may_hint]] = looked
        theirs = ServerIdentity(database, server_started)
        if theirs != home.place() and self._waits:
            await home.locate()  # the server may have been started again since
        if theirs != home.place():
            raise self._refusal()
        if not may_insert:
            raise StoreUnusable(
                f"the caller's transaction at {self._where}",
                "is read-only, or its user may not insert runs and messages",
                f"Grant USAGE on schema {home.schema}, and SELECT and INSERT on its tables",
            )
        self.channel = home.channel if may_hint else None
        return caller

    def _drivers(self) -> str:
        if self._waits:
            return "asyncpg, psycopg (AsyncConnection), or SQLAlchemy (async) on top of one of them"
        return "psycopg (Connection), or SQLAlchemy on top of it"


def _caller(connection: object, *, waits: bool) -> Caller | None:
    packages = packages_of(connection)
    if waits and "asyncpg" in packages:
        from onward.store.postgres import asyncpg_caller

        return asyncpg_caller.caller(connection)
    if "psycopg" in packages:
        from onward.store.postgres import psycopg_caller

        return psycopg_caller.caller(connection, waits=waits)
    return None
