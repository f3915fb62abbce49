"""Connections to one Postgres: few, shared, and never left dirty.

Work runs in a task of its own, so cancelling whoever waits for it does not reach the connection.
A connection on which anything unexpected happened is closed, not shared again.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from onward.errors import Unavailable
from onward.store.postgres.faults import Contended, told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from onward.store.address import PostgresAddress

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""How long a call tries before it says that the database is away."""

_FIRST_DELAY_SECONDS = 0.02
_MOST_DELAY_SECONDS = 0.5
_CONNECT_SECONDS = 5.0
_COMMAND_SECONDS = 30.0

_SETTINGS = {
    "application_name": "onward",
    "jit": "off",
    # Batches differ only in size: planning them anew each time costs more than it could save.
    "plan_cache_mode": "force_generic_plan",
    # A plan may be made while a table is empty, and must still be right when it is not.
    "enable_seqscan": "off",
    "lock_timeout": "2000",
}


async def connect(address: PostgresAddress) -> Any:
    """Open a connection, set as the store needs it."""
    options: dict[str, Any] = {"timeout": _CONNECT_SECONDS, "command_timeout": _COMMAND_SECONDS}
    if address.pooled:
        options |= {"statement_cache_size": 0}
    else:
        options |= {
            "server_settings": _SETTINGS,
            "max_cached_statement_lifetime": 0,
            "max_cacheable_statement_size": 0,
        }
    return await asyncpg.connect(address.url, **options)


class Pool:
    """At most `most` connections, made when they are needed."""

    def __init__(self, address: PostgresAddress, most: int) -> None:
        self._address = address
        self._free: list[Any] = []
        self._places = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(
        self, work: Callable[[Any], Awaitable[T]], *, patience: float = PATIENCE_SECONDS
    ) -> T:
        """Run `work` with a connection, again if it is lost or the server asks for it.

        Raises:
            Unavailable: it did not succeed for as long as `patience`.
        """
        return await self._shielded(self._insist(work, patience))

    async def close(self) -> None:
        """Wait for what is under way, then close all connections."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        while self._free:
            connection = self._free.pop()
            with contextlib.suppress(Exception):
                await connection.close(timeout=1)

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be waiting any more: it counts as seen

    async def _insist(self, work: Callable[[Any], Awaitable[T]], patience: float) -> T:
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                return await self._once(work)
            except Exception as error:
                meaning = told(error, str(self._address))
                if meaning is None:
                    raise
                away = isinstance(meaning, Unavailable) and not isinstance(meaning, Contended)
                if not away or loop.time() + delay > end:
                    raise meaning from error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MOST_DELAY_SECONDS)

    async def _once(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async with self._places:
            connection = self._free.pop() if self._free else await connect(self._address)
            try:
                result = await work(connection)
            except asyncpg.PostgresError:
                self._put_back(connection)  # the server said no and rolled back: nothing is open
                raise
            except BaseException:
                connection.terminate()
                raise
            self._put_back(connection)
            return result

    def _put_back(self, connection: Any) -> None:
        if connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
        else:
            self._free.append(connection)
