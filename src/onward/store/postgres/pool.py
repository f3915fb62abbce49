"""Connections to one Postgres: few, shared, and never left dirty.

Work runs in a task of its own, so cancelling whoever waits for it does not reach the connection.
A connection on which anything unexpected happened is closed, not shared again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from onward.errors import OnwardError, StoreUnusable, Unavailable
from onward.store.forks import check_process
from onward.store.postgres.faults import POOLER, told
from onward.store.writing.lane import Contended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from onward.store.address import PostgresAddress

T = TypeVar("T")

PATIENCE_SECONDS = 10.0
"""How long a call tries before it says that the database is away."""

CONNECT_SECONDS = 5.0
COMMAND_SECONDS = 30.0
"""How long a server may take over one statement before it counts as away."""

_FIRST_DELAY_SECONDS = 0.02
_MOST_DELAY_SECONDS = 0.5

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
    """Open a connection, set as the store needs it.

    Raises:
        StoreUnusable: the address has options that driver or server do not take.
    """
    options: dict[str, Any] = {"timeout": CONNECT_SECONDS, "command_timeout": COMMAND_SECONDS}
    if address.pooled:
        options |= {"statement_cache_size": 0}
    else:
        options |= {
            "server_settings": _SETTINGS,
            "max_cached_statement_lifetime": 0,
            "max_cacheable_statement_size": 0,
        }
    try:
        return await asyncpg.connect(address.url, **options)
    except asyncpg.ProtocolViolationError as error:
        raise StoreUnusable(str(address), *POOLER) from error
    except (ValueError, asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError) as error:
        kind = type(error).__name__
    # Raised here, so that the driver's error is not in its context: it may quote the address.
    fact = f"has options that cannot be used ({kind})"
    raise StoreUnusable(str(address), fact, "Check the options in the address")


class Pool:
    """At most `most` connections, made when they are needed."""

    def __init__(self, address: PostgresAddress, most: int) -> None:
        self._address = address
        self._free: list[Any] = []
        self._places = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_open = False
        self._pid = os.getpid()

    def open(self) -> None:
        """Let work begin; nothing connects before there is some."""
        self._is_open = True
        self._pid = os.getpid()

    async def run(
        self,
        work: Callable[[Any], Awaitable[T]],
        *,
        patience: float | None = None,
        quick: bool = False,
        splits: bool = False,
    ) -> T:
        """Run `work` with a connection, again if it is lost or the server asks for it.

        Args:
            work: What to do; it may be done again, whole.
            patience: How many seconds to go on trying; `PATIENCE_SECONDS` by default.
            quick: The work takes no time by itself, so even one try ends with the patience.
            splits: The caller can do better than wait for somebody's lock, so tell it at once.

        Raises:
            Contended: somebody's lock is in the way, and the caller `splits`.
            Unavailable: it did not succeed for as long as `patience`.
        """
        if not self._is_open:
            raise Unavailable(
                str(self._address), "is not open here", "Use the app inside of `async with app`"
            )
        check_process(self._pid, str(self._address))
        seconds = PATIENCE_SECONDS if patience is None else patience
        return await self._shielded(self._insist(work, seconds, quick=quick, splits=splits))

    async def close(self) -> None:
        """Wait for what is under way, then close all connections."""
        self._is_open = False
        try:
            while self._tasks:
                await asyncio.wait(self._tasks)
            while self._free:
                with contextlib.suppress(Exception):
                    await self._free.pop().close(timeout=1)
        finally:
            while self._free:
                self._free.pop().terminate()

    async def abandon(self) -> None:
        """Give up what is under way, then close all connections."""
        for task in self._tasks:
            task.cancel()
        await self.close()

    async def _shielded(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may be waiting any more: it counts as seen

    async def _insist(
        self, work: Callable[[Any], Awaitable[T]], seconds: float, *, quick: bool, splits: bool
    ) -> T:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                async with asyncio.timeout_at(end if quick else None):
                    return await self._once(work)
            except Exception as error:
                meaning = told(error, str(self._address))
                if meaning is None:
                    raise
                passes = isinstance(meaning, Unavailable)
                if splits and isinstance(meaning, Contended):
                    passes = False
                if not passes or loop.time() + delay > end:
                    raise meaning from error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MOST_DELAY_SECONDS)

    async def _once(self, work: Callable[[Any], Awaitable[T]]) -> T:
        async with self._places:
            connection = await self._take()
            try:
                result = await work(connection)
            except asyncpg.ReadOnlySQLTransactionError:
                connection.terminate()  # another server may be the one that takes writes now
                raise
            except (asyncpg.PostgresError, OnwardError):
                self._put_back(connection)  # a plain no, and rolled back: nothing is open
                raise
            except BaseException:
                connection.terminate()
                raise
            self._put_back(connection)
            return result

    async def _take(self) -> Any:
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():  # a server that restarted has hung up on all of them
                return connection
        return await connect(self._address)

    def _put_back(self, connection: Any) -> None:
        if not self._is_open or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
        else:
            self._free.append(connection)
