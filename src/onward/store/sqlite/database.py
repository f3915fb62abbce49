"""A SQLite file, or a database in memory, as a database of the store."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from onward.errors import Unavailable
from onward.store.database import Capabilities
from onward.store.hints import Exchange
from onward.store.sqlite import batch
from onward.store.sqlite.admission import SqliteAdmission
from onward.store.sqlite.connection import (
    DIALECT,
    check_library,
    connect,
    kept_time,
    migrate,
)
from onward.store.sqlite.files import Locks, check_place
from onward.store.sqlite.highwater import HighWater
from onward.store.sqlite.library import sqlite3, told
from onward.store.sqlite.threads import Inline, Threaded
from onward.store.sqlite.transaction import Session
from onward.store.within import Within

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Spawn
    from onward.store.address import SqliteAddress
    from onward.store.database import Tx, Wanted, Written
    from onward.store.hints import Carrier
    from onward.store.rows import Claimed, Message, NewRun, Sent, Started
    from onward.store.sqlite.threads import Worker
    from onward.store.sqlite.transaction import SqliteTx
    from onward.store.writing.commit import Batch

__all__ = ["File", "SqliteDatabase", "connect"]

T = TypeVar("T")

READERS = 2


class File:
    """One database file, shared by everything in this process that uses it.

    All writing and checkpointing is done by one connection in one thread; readers only read.
    """

    def __init__(self, path: Path | None, clock: Clock, spawn: Spawn | None) -> None:
        self.path = path
        self.where = ":memory:" if path is None else str(path)
        self.users = 0
        self.exchange = Exchange()
        self.time = HighWater(clock)
        self.locks = Locks(path) if path is not None else None
        self.statements = DIALECT.statements()
        self._connections: list[sqlite3.Connection] = []
        self._foreign: sqlite3.Connection | None = None
        self._looked = (0, 0)
        try:
            # Not even the journal of a new file can be set by two processes at once.
            with self._alone():
                self._connections.append(connect(path))
                migrate(self._connections[0], self.where)
            self.time.learn(kept_time(self._connections[0]))
        except BaseException:
            self._let_go()
            raise
        self.writer = self._worker(spawn, "onward-writer", writes=True)
        self.readers: list[Worker] = []
        if path is not None and spawn is not None:
            self.readers = [self._worker(spawn, f"onward-reader-{n}") for n in range(READERS)]
            self._watch(path)

    def close(self) -> None:
        """Finish what is queued and close everything, the writer last: it alone may checkpoint."""
        if self._foreign is not None:
            self._foreign.close()
        for worker in (*self.readers, self.writer):
            worker.close()
        self._let_go()

    def _let_go(self) -> None:
        """Close what no worker has taken over, and give the locks back."""
        with self._alone():
            for connection in self._connections:
                connection.close()
        if self.locks is not None:
            self.locks.close()

    def _alone(self) -> AbstractContextManager[None]:
        return nullcontext() if self.locks is None else self.locks.writing()

    def _worker(self, spawn: Spawn | None, name: str, *, writes: bool = False) -> Worker:
        def session() -> Session:
            connection = self._connections.pop() if writes else self._reader()
            locks = self.locks if writes else None
            return Session(
                connection, self.statements, self.where, self.time, locks=locks, writes=writes
            )

        return Inline(session) if spawn is None else Threaded(session, spawn, name)

    def _reader(self) -> sqlite3.Connection:
        try:
            return connect(self.path, writes=False)
        except sqlite3.Error as error:
            raise told(error, self.where) or error from error

    def _watch(self, path: Path) -> None:
        self._foreign = connect(path, writes=False)
        self._changed()
        self.exchange.foreign_change = self._changed

    def _changed(self) -> bool:
        """Say whether another process committed since the last look; takes a few microseconds.

        While our own writer commits nobody can tell; but then this process is awake anyhow.
        """
        assert self._foreign is not None
        [[version]] = self._foreign.execute("PRAGMA data_version")
        before, self._looked = self._looked, (int(version), self.time.commits)
        return before[0] != self._looked[0] and before[1] == self._looked[1]


_files: dict[str, File] = {}
_files_lock = threading.Lock()


class SqliteDatabase:
    """A namespace in a SQLite database.

    `file` is one that is open already: so a simulation lets many stores share one in memory.
    """

    def __init__(
        self,
        address: SqliteAddress,
        namespace: str,
        clock: Clock,
        spawn: Spawn | None,
        file: File | None = None,
    ) -> None:
        self.is_private = address.path is None
        self.lanes = 1
        self.capabilities = Capabilities(listen=False)
        self.carrier: Carrier | None = None
        self.where = str(address)
        self._path = address.path
        self._namespace = namespace
        self._clock = clock
        self._spawn = spawn
        self._key = f"{os.getpid()}:{os.path.realpath(address.path)}" if address.path else ""
        self._open_file = file
        self._file: File | None = None
        self._next_reader = 0

    @property
    def exchange(self) -> Exchange:
        """Where hints about changes are rung and heard."""
        return self._opened().exchange

    async def open(self) -> None:
        """Open the file, which other stores of this process may have open already."""
        check_library()
        if self._path is not None:
            check_place(self._path)
        try:
            self._file = await self._share_aside() if self._spawn else self._share()
        except sqlite3.Error as error:
            raise told(error, self.where) or error from error

    async def _share_aside(self) -> File:
        """Share the file in a thread; whoever is cancelled meanwhile keeps no share of it."""
        sharing = asyncio.ensure_future(asyncio.to_thread(self._share))
        try:
            return await asyncio.shield(sharing)
        except asyncio.CancelledError:
            with contextlib.suppress(Exception):
                self._file = await sharing
                await self.close()
            raise

    async def close(self) -> None:
        """Let go of the file; the last one closes it."""
        file, self._file = self._file, None
        if file is None:
            return
        with _files_lock:
            file.users -= 1
            if file.users:
                return
            _files.pop(self._key, None)
        if self._spawn is None:
            file.close()
        else:
            await asyncio.to_thread(file.close)

    async def write(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in the writer, together with whatever else has gathered there."""
        return await self._do(work)

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a reader; a database in memory has only its writer to read from."""
        file = self._opened()
        if not file.readers:
            return await self.write(work)
        self._next_reader = (self._next_reader + 1) % len(file.readers)
        return await self._do(work, file.readers[self._next_reader])

    async def view(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a reader's transaction, which sees one moment."""
        return await self.read(work)

    async def commit(self, worker: str, writes: Batch) -> Written:
        """Write a batch of owners' commits."""
        return await self._do(lambda tx: batch.write(tx, worker, writes))

    async def start(self, runs: Sequence[NewRun]) -> Sequence[Started]:
        """Start runs that are not there yet."""
        return await self._do(lambda tx: batch.start(tx, runs))

    async def send(self, messages: Sequence[Message]) -> Sequence[Sent]:
        """Put messages into the inboxes of runs."""
        return await self._do(lambda tx: batch.send(tx, messages))

    async def sweep(self, most: int) -> Sequence[Sent]:
        """Deliver messages that callers wrote in transactions of their own."""
        return await self._do(lambda tx: batch.sweep(tx, most))

    async def claim(self, wanted: Wanted) -> list[Claimed]:
        """Make runs the worker's own. A worker whose process died loses its lease here, at once."""
        locks = self._opened().locks
        dead = locks.dead() if locks is not None else []
        claimed = await self._do(lambda tx: batch.claim(tx, wanted, dead))
        for worker in dead:
            assert locks is not None
            locks.forget(worker)
        return claimed

    async def take_lease(self, worker: str, length: Duration) -> Instant | None:
        """Begin a worker's lease, shown to other processes by a lock on a file too."""
        locks = self._opened().locks
        if locks is not None:
            locks.hold(worker)
        return await self._lease("take_lease", worker, length)

    async def renew_lease(self, worker: str, length: Duration) -> Instant | None:
        """Prolong a worker's lease; `None` means that it is lost."""
        return await self._lease("renew_lease", worker, length)

    async def drop_lease(self, worker: str) -> None:
        """End a worker's lease."""
        await self.write(lambda tx: tx.fetch("drop_lease", worker=worker))
        locks = self._opened().locks
        if locks is not None:
            locks.let_go(worker)

    def within(self, connection: object, *, waits: bool = True) -> Within:
        """Return the store as seen from a caller's open transaction."""
        file = self._opened()
        admit = SqliteAdmission(connection, self.where, file, waits=waits)
        return Within(admit, file.statements, self._namespace, file.time)

    async def locate(self) -> None:
        """Do nothing: a file is known by its path."""

    def tell(self, subjects: Iterable[str]) -> None:
        """Ring hints in this process; others see the file change."""
        rung = frozenset(subjects)
        if self._file is not None:
            self._file.exchange.ring(rung)
        if self.carrier is not None:
            self.carrier.tell(rung)

    async def _lease(self, name: str, worker: str, length: Duration) -> Instant | None:
        rows = await self.write(lambda tx: tx.fetch(name, worker=worker, length=length))
        return rows[0][0] if rows else None

    async def _do(
        self, work: Callable[[SqliteTx], Coroutine[Any, Any, T]], worker: Worker | None = None
    ) -> T:
        answer = (worker or self._opened().writer).submit(work, self._namespace)
        result: T = await asyncio.wrap_future(answer)
        return result

    def _share(self) -> File:
        if self._open_file is not None:
            file = self._open_file
        elif self._path is None or self._spawn is None:
            file = File(self._path, self._clock, self._spawn)
        else:
            with _files_lock:
                file = _files.get(self._key) or File(self._path, self._clock, self._spawn)
                _files[self._key] = file
        file.users += 1
        return file

    def _opened(self) -> File:
        if self._file is None:
            raise Unavailable(
                self.where, "is not open here", "Use the app inside of `async with app`"
            )
        return self._file
