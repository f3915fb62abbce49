"""A SQLite file, or a database in memory, as a database of the store."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from onward.core.lease import GAPS_A_LEASE
from onward.errors import NotOpen
from onward.model.health import StoreHealth
from onward.model.workers import RenewedLease
from onward.store.caller_writes import CallerWrites
from onward.store.database import Capabilities
from onward.store.runs.stopping import subjects_of
from onward.store.sqlite import batch
from onward.store.sqlite.admission import SqliteAdmission
from onward.store.sqlite.claim import claim
from onward.store.sqlite.connection import check_library, connect
from onward.store.sqlite.file import File, release, share, share_again
from onward.store.sqlite.files import check_place
from onward.store.sqlite.library import sqlite3, translate_error
from onward.system.exiting import call_in_thread
from onward.system.process import check_process

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Spawn
    from onward.errors import LeaseLost
    from onward.model.claims import ClaimNotes, Wanted
    from onward.model.messages import NewMessage, SentMessage
    from onward.model.runs import ClaimedRun, Start, Started
    from onward.store.address import SqliteAddress
    from onward.store.database import Tx, Written
    from onward.store.hints import Carrier, HintBus
    from onward.store.sqlite.threads import JobRunner
    from onward.store.sqlite.transaction import SqliteTx
    from onward.store.writing.batch import Batch

__all__ = ["File", "SqliteDatabase", "connect"]

T = TypeVar("T")


class SqliteDatabase:
    """A namespace in a SQLite database.

    Args:
        address: Where it is.
        namespace: The namespace.
        clock: Where time is read.
        spawn: How threads are started; `None` works in the caller's thread.
        file: One that is open already: so a simulation lets many stores share one in memory.
        owner: The database whose file this one shares, for as long as that is open.
    """

    def __init__(
        self,
        address: SqliteAddress,
        namespace: str,
        clock: Clock,
        spawn: Spawn | None,
        file: File | None = None,
        owner: SqliteDatabase | None = None,
    ) -> None:
        self.is_private = address.path is None
        self.lanes = 1
        self.capabilities = Capabilities(listen=False, clock=False)
        self.carrier: Carrier | None = None
        self.where = str(address)
        self._address = address
        self._path = address.path
        self._namespace = namespace
        self._clock = clock
        self._spawn = spawn
        self._open_file = file
        self._owner = owner
        self._file: File | None = None
        self._hints: HintBus | None = None
        self._pid = os.getpid()
        self._next_reader = 0

    @property
    def hints(self) -> HintBus:
        self._opened()
        assert self._hints is not None, "an open database has hints"
        return self._hints

    def in_namespace(self, namespace: str) -> SqliteDatabase:
        return SqliteDatabase(self._address, namespace, self._clock, self._spawn, owner=self)

    async def open(self) -> None:
        """Open the file, which other stores of this process may have open already."""
        if self._owner is not None:
            self._pid = os.getpid()
            self._use(share_again(self._owner._opened()))
            return
        check_library()
        self._pid = os.getpid()
        if self._path is not None:
            check_place(self._path)
        try:
            self._use(await self._share_aside() if self._spawn else self._share())
        except sqlite3.Error as error:
            raise translate_error(error, self.where) or error from error

    def _use(self, file: File) -> None:
        self._file = file
        self._hints = file.hints.of(self._namespace)

    async def _share_aside(self) -> File:
        """Share the file in a thread; a caller that is cancelled meanwhile keeps no share of it."""
        sharing = asyncio.ensure_future(asyncio.to_thread(self._share))
        try:
            return await asyncio.shield(sharing)
        except asyncio.CancelledError:
            with suppress(Exception):
                self._file = await sharing
                await self.close()
            raise

    async def close(self) -> None:
        """Release the file; the last store that uses it closes it."""
        file, self._file = self._file, None
        if file is None or self._pid != os.getpid() or not release(file):
            return
        if self._spawn is None:
            file.close()
        else:
            await call_in_thread(file.close)

    async def write(
        self,
        work: Callable[[Tx], Coroutine[Any, Any, T]],
        *,
        patient: bool = True,  # noqa: ARG002 - there is one lock, for the whole file
    ) -> T:
        return await self._do(work)

    async def read(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a reader; a database in memory has only its writer to read from."""
        file = self._opened()
        if not file.readers:
            return await self.write(work)
        self._next_reader = (self._next_reader + 1) % len(file.readers)
        return await self._do(work, file.readers[self._next_reader])

    async def snapshot(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a reader's transaction, which sees one snapshot."""
        return await self.read(work)

    async def commit(self, writes: Batch) -> Written:
        # Not by `_do`: every step waits for this.
        submit = self._opened().writer.submit
        answer = submit(lambda tx: batch.write(tx, writes), self._namespace)
        written: Written = await asyncio.wrap_future(answer)
        return written

    async def start(self, starts: Sequence[Start]) -> Sequence[Started | LeaseLost]:
        return await self._do(lambda tx: batch.start(tx, starts))

    async def send(self, messages: Sequence[NewMessage]) -> Sequence[SentMessage]:
        answers, swept = await self._do(lambda tx: batch.send_in_turn(tx, messages))
        self.publish(subjects_of(swept))
        return answers

    async def sweep(self, limit: int) -> Sequence[SentMessage]:
        return await self._do(lambda tx: batch.sweep(tx, limit))

    async def claim(self, wanted: Wanted, notes: ClaimNotes) -> list[ClaimedRun]:
        """Assign runs to a worker. A worker whose process died loses its lease here, at once."""
        locks = self._opened().locks
        dead = locks.dead(self._namespace) if locks is not None else []
        claimed = await self._do(lambda tx: claim(tx, wanted, dead, notes))
        for worker in dead:
            assert locks is not None
            locks.forget(self._namespace, worker)
        return claimed

    async def take_lease(
        self, worker: str, length: Duration, *, is_remote: bool = False
    ) -> Instant | None:
        """Begin a worker's lease, shown to other processes by a lock on a file too.

        The system holds that lock for as long as this process lives, which says nothing about a
        remote worker. With a lock, the workers of a server that restarts would count as dead.
        """
        locks = self._opened().locks
        if locks is not None and not is_remote:
            locks.hold(self._namespace, worker)
        return await self._lease("take_lease", worker=worker, length=length)

    async def renew_lease(self, worker: str, length: Duration) -> Instant | None:
        return await self._lease("renew_lease", worker=worker, length=length, gaps=GAPS_A_LEASE)

    async def renew_leases(self, lengths: Mapping[str, Duration]) -> dict[str, RenewedLease]:
        async def renew(tx: SqliteTx) -> dict[str, RenewedLease]:
            rows = list(lengths.items())
            _, kept = tx.write_rows("renew_leases", rows, gaps=GAPS_A_LEASE)
            until = dict(kept)
            draining = tx.rows("draining_workers", workers=tx.array(lengths))
            drains = {worker for (worker,) in draining}
            return {each: RenewedLease(until.get(each), each in drains) for each in lengths}

        return await self._do(renew) if lengths else {}

    async def drop_lease(self, worker: str) -> None:
        await self.write(lambda tx: tx.fetch("drop_lease", worker=worker))
        locks = self._opened().locks
        if locks is not None:
            locks.let_go(self._namespace, worker)

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        file = self._opened()
        admit = SqliteAdmission(connection, self.where, file, waits=waits)
        return CallerWrites(admit, file.statements, self._namespace, file.time)

    async def measure(self) -> StoreHealth:
        [[pages, free, size]] = await self.read(lambda tx: tx.fetch("file_pages"))
        return StoreHealth({}, pages * size, free * size, self._wal_size())

    def _wal_size(self) -> int:
        try:
            return 0 if self._path is None else os.stat(f"{self._path}-wal").st_size
        except FileNotFoundError:
            return 0

    async def reset_clock(self) -> Duration:
        """Set the file's time to the machine's clock, and return by how much it was ahead.

        Other processes follow with their next transaction. Leases last as long as they would have.
        """

        async def reset(tx: SqliteTx) -> Duration:
            machine = self._clock.wall()
            ahead = tx.now - machine
            if ahead > 0:
                tx.rows("reset_time", to=machine)
                tx.rows("shift_leases", by=ahead)
            return max(0, ahead)

        return await self._do(reset)

    async def locate(self) -> None:
        """Do nothing: a file is known by its path."""

    def publish(self, subjects: Iterable[str]) -> None:
        """Publish hints in this process; other processes notice that the file changed."""
        changed = frozenset(subjects)
        if self._file is not None and self._hints is not None:
            self._hints.publish(changed)
        if self.carrier is not None:
            self.carrier.publish(changed)

    async def _lease(self, name: str, **given: object) -> Instant | None:
        rows = await self.write(lambda tx: tx.fetch(name, **given))
        return rows[0][0] if rows else None

    async def _do(
        self, work: Callable[[SqliteTx], Coroutine[Any, Any, T]], worker: JobRunner | None = None
    ) -> T:
        answer = (worker or self._opened().writer).submit(work, self._namespace)
        result: T = await asyncio.wrap_future(answer)
        return result

    def _share(self) -> File:
        if self._open_file is not None:
            return share_again(self._open_file)
        if self._path is None or self._spawn is None:
            file = self._made()
            file.users = 1
            return file
        return share(self._path, self._made)

    def _made(self) -> File:
        return File(self._path, self._clock, self._spawn)

    def _opened(self) -> File:
        if self._file is None:
            raise NotOpen(self.where)
        check_process(self._pid, self.where)
        return self._file
