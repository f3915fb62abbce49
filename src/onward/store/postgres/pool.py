"""Connections to one Postgres: few, shared, and never left dirty.

Work runs in a task of its own, so cancelling the task that awaits it does not reach the connection.
A connection on which anything unexpected happened is closed, not shared again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg

from onward.errors import NotOpen, OnwardError, StoreUnusable, Unavailable
from onward.store.postgres.faults import LOST, translate_error
from onward.store.postgres.silence import SILENT_SECONDS, Silence
from onward.store.writing.lane import Contended
from onward.system.process import check_process

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from onward.store.address import PostgresAddress

T = TypeVar("T")

PATIENCE_SECONDS = 2.0
"""How long a call tries to reach the database before it raises `Unavailable`."""

OPEN_SECONDS = 10.0
"""The same for opening a store: a process may start together with its database."""

CONNECT_SECONDS = 5.0
_CONNECT_SECONDS_LEAST = 0.5
QUICK_SECONDS = 10.0
"""How long a reachable server may take for a short statement."""
COMMAND_SECONDS = 30.0
"""How long a reachable server may take for any statement."""

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
    # A process that stands still inside a transaction must not keep its locks: another worker
    # could not take over its runs.
    "idle_in_transaction_session_timeout": "5000",
}


async def connect(address: PostgresAddress) -> Any:
    """Open a connection, set as the store needs it.

    Raises:
        StoreUnusable: the address has options that driver or server do not take.
        Unavailable: what answered does not speak as a Postgres does.
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
    except (ValueError, asyncpg.UndefinedObjectError, asyncpg.InvalidParameterValueError) as error:
        kind = type(error).__name__
    except (asyncpg.PostgresError, *LOST):
        raise
    except Exception as error:  # the driver fails in its own ways when a server dies
        fact = f"cannot be reached: the driver failed ({type(error).__name__})"
        raise Unavailable(str(address), fact) from error
    # Raised here, so that the driver's error is not in its context: it may quote the address.
    fact = f"has options that cannot be used ({kind})"
    raise StoreUnusable(str(address), fact, "Check the options in the address")


class Pool:
    """Up to `size` connections, opened on demand."""

    def __init__(self, address: PostgresAddress, size: int) -> None:
        self._address = address
        self._size = size
        self._free: list[Any] = []
        self._places = asyncio.Semaphore(size)
        self._in_line: set[asyncio.Timeout] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_open = False
        self._pid = os.getpid()
        self._probing: asyncio.Task[bool] | None = None
        self.is_proven = False
        """Whether the database was usable before: then a refusal now counts as an outage."""

    def open(self) -> None:
        """Accept work; connections are opened on demand."""
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

        A server that is there may take its time; one that is silent is away.

        Args:
            work: What to do; it may be done again, whole.
            patience: How many seconds to go on trying; `PATIENCE_SECONDS` by default.
            quick: The work takes no time by itself: if there is no answer, the connection is
                likely to be dead, so that another is tried.
            splits: The caller can do better than wait for a lock: raise `Contended` at once.

        Raises:
            Contended: another transaction holds a lock, and the caller `splits`.
            NotOpen: the pool is not open.
            Unavailable: it did not succeed for as long as `patience`.
        """
        self.check_open()
        seconds = PATIENCE_SECONDS if patience is None else patience
        return await self._shielded(self._insist(work, seconds, quick=quick, splits=splits))

    def check_open(self) -> None:
        """Check that work is accepted in this process.

        Raises:
            NotOpen: it is not.
        """
        if not self._is_open:
            raise NotOpen(str(self._address))
        check_process(self._pid, str(self._address))

    async def close(self) -> None:
        """Wait for work in flight, then close all connections."""
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
        """Cancel work in flight, then close all connections."""
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
            task.exception()  # retrieved, because its caller may be gone

    async def _insist(
        self, work: Callable[[Any], Awaitable[T]], seconds: float, *, quick: bool, splits: bool
    ) -> T:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        end = begun + seconds
        limit = min(seconds, QUICK_SECONDS) if quick else COMMAND_SECONDS
        delay = _FIRST_DELAY_SECONDS
        while True:
            try:
                return await self._once(work, end, limit)
            except _TooSlow as error:
                # The server is reachable: another connection may work, or it needs more time.
                if limit >= QUICK_SECONDS:
                    raise Unavailable(
                        str(self._address), f"did not answer within {limit:.0f} s"
                    ) from error
                limit = QUICK_SECONDS
                continue
            except Exception as error:
                if isinstance(error, asyncpg.PostgresError):
                    error.detail = None  # it quotes rows, and tracebacks would show them
                meaning = translate_error(error, self._address, is_proven=self.is_proven)
                if meaning is None:
                    raise
                passes = isinstance(meaning, Unavailable)
                if splits and isinstance(meaning, Contended):
                    passes = False
                if isinstance(error, socket.gaierror) and not self.is_proven:
                    end = min(end, begun + PATIENCE_SECONDS)  # most likely a typing error
                if not passes or loop.time() + delay > end:
                    raise meaning from error
            await asyncio.sleep(delay)
            delay = min(delay * 2, _MOST_DELAY_SECONDS)

    async def _once(self, work: Callable[[Any], Awaitable[T]], end: float, limit: float) -> T:
        """Run `work` with a connection, waiting for one until `end` and for `limit` seconds."""
        async with self._place(end):
            earliest = asyncio.get_running_loop().time() + _CONNECT_SECONDS_LEAST
            async with asyncio.timeout_at(max(end, earliest)):
                connection = await self._take()
            try:
                result = await self._watched(work(connection), limit)
            except asyncpg.ReadOnlySQLTransactionError:
                connection.terminate()  # another server may be the one that takes writes now
                raise
            except (asyncpg.PostgresError, OnwardError):
                self._put_back(connection)  # a plain refusal, rolled back: the connection is clean
                raise
            except BaseException:
                connection.terminate()
                raise
            self._put_back(connection)
            self._extend_waits()
            return result

    @asynccontextmanager
    async def _place(self, end: float) -> AsyncIterator[None]:
        """Reserve one of the connections."""
        if self._places.locked():
            await self._wait_in_line(end)
        else:
            await self._places.acquire()
        try:
            yield
        finally:
            self._places.release()

    async def _wait_in_line(self, end: float) -> None:
        """Wait for a connection until `end`, and longer while the server answers others."""
        clock = asyncio.timeout_at(end)
        self._in_line.add(clock)
        try:
            async with clock:
                await self._places.acquire()
        except TimeoutError:
            fact = f"is busy: all {self._size} connections of the pool are in use"
            raise Unavailable(str(self._address), fact) from None
        finally:
            self._in_line.discard(clock)

    def _extend_waits(self) -> None:
        """Give those in line more time: the server has just answered, so it is not away."""
        later = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        for clock in self._in_line:
            if not clock.expired() and (clock.when() or 0) < later:
                clock.reschedule(later)

    # --- silence ---------------------------------------------------------------------------------

    async def _watched(self, work: Awaitable[T], limit: float) -> T:
        """Wait for `work` for at most `limit` seconds, as long as the server shows signs of life.

        Raises:
            TimeoutError: the server is silent.
            _TooSlow: the server is there, but did not answer within the limit.
        """
        async with asyncio.timeout(limit) as clock:
            silence = Silence(clock, self._ask)
            try:
                return await work
            except asyncio.CancelledError:
                if clock.expired() and not silence.is_told:
                    raise _TooSlow from None
                raise
            finally:
                silence.stop()

    def _ask(self) -> asyncio.Task[bool]:
        """Start to probe the server, unless a probe is in flight."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.ensure_future(self._is_there())
            self._tasks.add(self._probing)
            self._probing.add_done_callback(self._tasks.discard)
        return self._probing

    async def _is_there(self) -> bool:
        try:
            async with asyncio.timeout(SILENT_SECONDS):
                connection = await connect(self._address)
                try:
                    await connection.fetchval("SELECT 1")
                finally:
                    connection.terminate()
        except asyncpg.PostgresError:
            return True  # it is reachable, though it may accept no more connections
        except Exception:  # noqa: BLE001 - any failure means no sign of life
            return False
        return True

    # --- connections -----------------------------------------------------------------------------

    async def _take(self) -> Any:
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():  # a restart of the server closes all of them
                return connection
        return await connect(self._address)

    def _put_back(self, connection: Any) -> None:
        if not self._is_open or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
        else:
            self._free.append(connection)


class _TooSlow(Exception):
    """A reachable server did not answer in time."""
