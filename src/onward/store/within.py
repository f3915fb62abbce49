"""Starts and messages in a transaction of the caller's own: they happen if and when it commits.

Such writes only insert. They lock no row of the engine, so a caller may keep its transaction open
for as long as it likes, and they raise nothing that would abort it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward.errors import StoreUnusable
from onward.store.fitness import check_message, check_run
from onward.store.rows import Started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.ports import Clock
    from onward.store.rows import Message, NewRun
    from onward.store.statements import Statement


class Caller(Protocol):
    """A caller's connection, in a transaction."""

    async def fetch(self, sql: str, values: Sequence[object]) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows."""
        ...


class AsyncpgCaller:
    """An asyncpg connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object]) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows."""
        rows: Sequence[Sequence[Any]] = await self._connection.fetch(sql, *values)
        return rows


class SqliteCaller:
    """A connection of the `sqlite3` module."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object]) -> Sequence[Sequence[Any]]:
        """Run one statement and return its rows."""
        cursor = self._connection.cursor()
        cursor.row_factory = None  # the caller's own may give anything but tuples
        rows: Sequence[Sequence[Any]] = cursor.execute(sql, tuple(values)).fetchall()
        return rows


class Within:
    """The store, seen from a caller's transaction."""

    def __init__(
        self,
        caller: Caller,
        statements: dict[str, Statement],
        namespace: str,
        clock: Clock | None,
    ) -> None:
        self._caller = caller
        self._statements = statements
        self._namespace = namespace
        self._clock = clock

    async def start(self, run: NewRun) -> Started:
        """Start a run with the caller's commit, unless one of that id is there."""
        check_run(run)
        given = run._asdict()
        made = await self._fetch("insert_run", given)
        if made:
            await self._fetch("insert_run_data", given)
            return Started(run.uid, True, run.name, run.args_hash, made[0][0])  # noqa: FBT003
        there = await self._fetch("run_by_id", {"id": run.id})
        if not there:  # it is in another transaction that has not committed in our sight
            return Started(run.uid, False, run.name, run.args_hash, "ready")  # noqa: FBT003
        uid, name, args_hash, state = there[0]
        return Started(uid, uid == run.uid, name, args_hash, state)

    async def send(self, message: Message) -> None:
        """Send a message with the caller's commit; a worker delivers it after that."""
        check_message(message)
        await self._fetch("insert_mark", message._asdict())

    async def _fetch(self, name: str, given: dict[str, object]) -> Sequence[Sequence[Any]]:
        statement = self._statements[name]
        given["namespace"] = self._namespace
        if self._clock is not None:
            given["now"] = self._clock.wall()
        return await self._caller.fetch(statement.sql, statement.arrange(given))


def refuse(connection: object, where: str) -> StoreUnusable:
    """Return the error for a connection that this store cannot write through."""
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return StoreUnusable(
        f"a connection of type {kind}",
        f"cannot carry writes to {where}",
        "Pass a connection to the same database: asyncpg for Postgres, sqlite3 for SQLite",
    )
