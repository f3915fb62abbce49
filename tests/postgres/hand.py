"""A connection that a test moves by hand, beside the store's own."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from onward.store.postgres import batch
from onward.store.postgres.transaction import PostgresTx
from onward.store.statements import Dialect
from onward.store.writing.batch import fold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward.store import Commit
    from onward.store.database import Written

T = TypeVar("T")

STATEMENTS = Dialect(postgres=True, database_time=True).statements()


class Hand:
    """One connection: transactions are opened and closed by the test, statement by statement."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.tx = PostgresTx(connection, STATEMENTS, "default", "the hand", None)
        self._open: Any = None

    async def begin(self) -> None:
        self._open = self.connection.transaction()
        await self._open.start()

    async def commit(self) -> None:
        await self._open.commit()

    async def roll_back(self) -> None:
        await self._open.rollback()

    async def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement as it stands, and return its rows."""
        return [tuple(row) for row in await self.connection.fetch(sql, *values)]

    async def value(self, sql: str, *values: object) -> Any:
        return await self.connection.fetchval(sql, *values)

    async def write(self, worker: str, *commits: Commit) -> Written:
        """Write commits as a writer would, in the transaction that is open here."""
        chosen, taken = fold([(worker, commit) for commit in commits])
        assert all(taken)
        return await batch.write(self.tx, chosen)

    async def somebody_waits(self) -> bool:
        """Say whether some backend of this database waits for a lock."""
        sql = """SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'"""
        return bool(await self.value(sql))

    async def nobody_waits(self) -> bool:
        return not await self.somebody_waits()


@asynccontextmanager
async def hand(url: str) -> AsyncIterator[Hand]:
    """Open a connection to be moved by hand."""
    connection = await asyncpg.connect(url)
    try:
        yield Hand(connection)
    finally:
        await connection.close()


async def until(holds: Callable[[], Awaitable[object]], seconds: float = 30) -> None:
    """Wait until something holds; fail if it does not within the time."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - another process makes it so
            await asyncio.sleep(0.002)
