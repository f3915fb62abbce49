"""The store: one set of functions over SQLite and Postgres, and the group commit before them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onward.core.lease import LEASE, unknown
from onward.errors import LeaseLost, StoreUnusable
from onward.model.messages import SentMessage
from onward.model.runs import Start
from onward.model.stopping import ForcedEnd, PauseAnswer, Stopped
from onward.store.address import SqliteAddress, parse
from onward.store.hints import queue_subject
from onward.store.runs.following import follow
from onward.store.runs.holding import pause, resume
from onward.store.runs.limits import has_limit, set_limit
from onward.store.runs.maintenance import (
    disown,
    gone_workers,
    keep_progress,
    parked,
    remove_workers,
    resign,
    retime,
    unpark,
)
from onward.store.runs.reads import Reads
from onward.store.runs.stopping import give_up, overdue, stop, subjects_of
from onward.store.sqlite.database import SqliteDatabase
from onward.store.writing.lane import Lane
from onward.store.writing.text_limits import (
    check_following,
    check_key,
    check_message,
    check_run,
    is_storable,
)
from onward.store.writing.writer import Writer
from onward.system.clock import SystemClock, SystemRandomness, Uids, spawn_thread
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.model.claims import Wanted
    from onward.model.following import Followed, Following
    from onward.model.messages import NewMessage
    from onward.model.runs import ClaimedRun, Move, NewRun, RunOwner, Started
    from onward.model.workers import WorkerOffer
    from onward.store.caller_writes import CallerWrites
    from onward.store.database import Database, Tx
    from onward.store.hints import Subscription
    from onward.store.redis import RedisCarrier

T = TypeVar("T")

MAX_SWEEP = 500


class Store(Reads):
    """A namespace in a database. Open it with `async with`.

    Every call is safe to repeat: ids are made by the client, and every statement recognises its
    own result. Cancelling the task that waits for a call does not undo or damage it.
    """

    def __init__(
        self,
        database: Database,
        namespace: str,
        clock: Clock,
        randomness: Randomness,
        redis: RedisCarrier | None = None,
    ) -> None:
        self.database = database
        self.namespace = namespace
        self._redis = redis
        self._clock = clock
        self._uids = Uids(clock, randomness)
        self._starts: Lane[Start, Started | LeaseLost] = Lane(
            self._write_starts, name="onward starts", key=lambda start: start.run.id
        )
        self._sends: Lane[NewMessage, SentMessage] = Lane(
            self._write_messages, name="onward messages", key=lambda message: message.target
        )
        self._writers: dict[str, Writer] = {}

    async def __aenter__(self) -> Self:
        await self.database.open()
        if self._redis is not None:
            try:
                await self._start_redis(self._redis)
            except BaseException:
                await self.database.close()
                raise
        return self

    async def _start_redis(self, redis: RedisCarrier) -> None:
        async def identify(tx: Tx) -> int:
            drawn = int(self.new_uid()[-12:], 16)
            await tx.fetch("take_identity", identity=drawn)
            return int((await tx.fetch("identity"))[0][0])

        identity = await self.write(identify)
        redis.start(f"onward:{identity}:{self.namespace}", self.new_uid(), self.database.hints)
        self.database.carrier = redis

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as last:
            last.push_async_callback(self.database.close)
            if self._redis is not None:
                last.push_async_callback(self._redis.close)
            await self._starts.close()
            await self._sends.close()
            for writer in self._writers.values():
                await writer.close()

    # --- clients ---------------------------------------------------------------------------------

    def new_uid(self) -> str:
        """Return a fresh id that sorts by time, after all that were made here before."""
        return self._uids.new()

    async def start(self, run: NewRun, owner: RunOwner | None = None) -> Started:
        """Start a run, unless one of that id is there; the answer says which it is.

        Args:
            run: The run.
            owner: Who starts it for another run, and may do so only while it has that.

        Raises:
            LeaseLost: the other run is not the owner's any more; nothing was started.
        """
        check_run(run)
        started = await self._starts.submit(Start(run, owner))
        if isinstance(started, LeaseLost):
            raise started
        return started

    async def send(self, message: NewMessage) -> SentMessage:
        """Put a message into a run's inbox; a message id that is there already does nothing."""
        if not is_storable(message.target):
            return SentMessage(None, None, "", "absent")
        check_message(message)
        return await self._sends.submit(message)

    async def stop(
        self,
        target: str,
        *,
        state: str,
        reason: str | None,
        error: bytes | None = None,
        unstarted_only: bool = False,
        by_uid: bool = False,
    ) -> Stopped:
        """End a run at once and tell its parent and its children.

        Args:
            target: The id of a run or, failing that, a uid. A run that is over and followed stands
                for the one that follows it.
            state: What becomes of it.
            reason: Why.
            error: What is kept as its error.
            unstarted_only: Leave a run alone that was ever claimed.
            by_uid: The target is a uid, even if it is the id of another run.
        """
        if not is_storable(target):
            return Stopped(None, "absent")
        how = ForcedEnd(state, reason, error, unstarted_only)
        stopped, subjects = await self.write(lambda tx: stop(tx, target, how, by_uid=by_uid))
        self.database.tell(subjects)
        return stopped

    async def pause(self, target: str) -> PauseAnswer:
        """Hold a run, by its uid or the newest of an id, and all that work for it."""
        return await self._hold(target, pause)

    async def resume(self, target: str) -> PauseAnswer:
        """Let a run go on, and all that only its own pause held."""
        return await self._hold(target, resume)

    async def _hold(
        self,
        target: str,
        change: Callable[[Tx, str, str], Coroutine[Any, Any, tuple[PauseAnswer, set[str]]]],
    ) -> PauseAnswer:
        if not is_storable(target):
            return PauseAnswer(None, "absent")
        message = self.new_uid()  # made once, so that a repeated transaction sends it once
        answer, subjects = await self.write(lambda tx: change(tx, target, message))
        self.database.tell(subjects)
        return answer

    async def follow(self, following: Following) -> Followed:
        """Let a new run follow another: a retry, a continuation, a fork, or in its place."""
        check_following(following)
        followed, subjects = await self.write(lambda tx: follow(tx, following))
        self.database.tell(subjects)
        return followed

    async def set_limit(self, key: str, max_running: int, owner: RunOwner | None = None) -> None:
        """Let at most `max_running` runs of a flow key be running at a time.

        Raises:
            LeaseLost: an owner does this for a run that it does not have any more.
        """
        check_key("the flow key", key)
        if not await self.read(lambda tx: has_limit(tx, key, max_running)):
            await self.write(lambda tx: set_limit(tx, key, max_running, owner))

    # --- workers ---------------------------------------------------------------------------------

    async def take_lease(self, worker: str, length: Duration = LEASE) -> Instant | None:
        """Begin a worker's lease and return its end; `None` if that worker has one."""
        return await self.database.take_lease(worker, length)

    async def renew_lease(self, worker: str, length: Duration = LEASE) -> Instant | None:
        """Prolong a worker's lease and return its end; `None` means that it is lost."""
        failpoint("renew.before")
        until = await self.database.renew_lease(worker, length)
        failpoint("renew.after")
        return until

    async def drop_lease(self, worker: str) -> None:
        """End a worker's lease: whatever it still has may be claimed by others."""
        await self.database.drop_lease(worker)

    async def claim(
        self, wanted: Wanted, repeated: Callable[[], None] = lambda: None
    ) -> list[ClaimedRun]:
        """Make runs the worker's own: ready ones, due ones, and those whose worker vanished.

        Args:
            wanted: What the worker takes.
            repeated: Called when the claim is sent again because no reply came: the first one may
                have claimed runs that no reply names.
        """
        failpoint("claim.before")
        once = tuple(dict.fromkeys(wanted.queues))  # or a run would be claimed as often
        claimed = await self.database.claim(replace(wanted, queues=once), repeated)
        failpoint("claim.after")
        return claimed

    async def give_up(self, worker: str, run: ClaimedRun, move: Move) -> bool:
        """End a run that its worker has claimed and cannot begin; say whether it was its own."""
        ended, subjects = await self.write(lambda tx: give_up(tx, worker, run, move))
        self.database.tell(subjects)
        return ended

    def writer(self, worker: str) -> Writer:
        """Return the group commit of a worker; there is one a worker."""
        if worker not in self._writers:
            self._writers[worker] = Writer(self.database, worker, self._clock)
        return self._writers[worker]

    def part(self, worker: str) -> None:
        """Forget the group commit of a worker that has left, unless it is still at work."""
        writer = self._writers.get(worker)
        if writer is not None and writer.is_idle:
            del self._writers[worker]

    async def audit(self, worker: str, known: Container[str]) -> list[str]:
        """Release the runs in a worker's name that it does not know, and return them.

        A claim whose reply was lost leaves such runs. The worker must not be claiming meanwhile.
        """
        owned = await self.owned(worker)
        strays = {uid: owned[uid] for uid in unknown(owned, known)}
        if strays:
            self.database.tell(await self.write(lambda tx: disown(tx, worker, strays.items())))
        return list(strays)

    async def resign(self, worker: str, held: Mapping[str, int]) -> list[str]:
        """Release all runs in the name of a worker whose lease is gone, and return them.

        No crash is counted for them, nor for those of `held` (by uid, with the fence under which
        the worker had them) that another worker has adopted meanwhile. The worker must not write
        any more.
        """
        await self.database.drop_lease(worker)
        released, subjects = await self.write(lambda tx: resign(tx, worker, held))
        self.database.tell(subjects)
        return released

    async def register(self, worker: dict[str, object]) -> None:
        """Let operators see a worker."""
        await self.write(lambda tx: tx.fetch("register_worker", **worker))

    async def unregister(self, worker: str) -> None:
        """Let operators see that a worker has left."""
        await self.write(lambda tx: tx.fetch("unregister_worker", worker=worker))

    async def remove_workers(self, most: int = 100) -> int:
        """Remove the rows of workers that left or died long ago; return how many."""
        gone = await self.read(lambda tx: gone_workers(tx, most))
        if not gone:
            return 0
        return await self.write(lambda tx: remove_workers(tx, gone))

    async def sweep(self) -> int:
        """Deliver messages that callers wrote in transactions of their own; say how many."""
        rows = await self.read(lambda tx: tx.fetch("outbox_waiting"))
        if not rows[0][0]:
            return 0
        sent = await self.database.sweep(MAX_SWEEP)
        self.database.tell(subjects_of(sent))
        return len(sent)

    async def overdue(self, most: int = 100) -> int:
        """End runs past their deadline that never began, tell the others; say how many."""
        count, subjects = await self.write(lambda tx: overdue(tx, most))
        self.database.tell(subjects)
        return count

    async def unpark(self, codes: Mapping[str, str], server: WorkerOffer | None = None) -> int:
        """Let runs go on that other code has parked; `codes` has the code of each workflow.

        With `server`, only those that such a worker would take.
        """
        if not await self.read(lambda tx: parked(tx, codes, server)):
            return 0
        count, subjects = await self.write(lambda tx: unpark(tx, codes, server))
        self.database.tell(subjects)
        return count

    async def keep_progress(self, worker: str, uid: str, fence: int, value: bytes) -> bool:
        """Keep how far a run has come; say whether the worker still owns it."""
        return await self.write(lambda tx: keep_progress(tx, worker, uid, fence, value))

    # --- both ------------------------------------------------------------------------------------

    async def write(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a transaction; it may be run again, whole, so it must only use its `Tx`."""
        return await self.database.write(work)

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        """Return the store as seen from a caller's open transaction: its writes join the caller's.

        Args:
            connection: The caller's own; it is looked at before the first write.
            waits: The connection may be an async one. Otherwise it must not be: then nothing here
                waits for an event loop, once `locate` was called.

        Raises:
            StoreUnusable: the connection is of no kind that could be taken.
        """
        return self.database.within(connection, waits=waits)

    def machine_time(self) -> Instant:
        """Return the time by the machine's clock, which is not the store's."""
        return self._clock.wall()

    async def reset_clock(self) -> Duration:
        """Set the store's time to the machine's clock, and return by how much it was ahead.

        Raises:
            StoreUnusable: the database has a clock of its own.
        """
        return await self.database.reset_clock()

    async def retime(self) -> list[str]:
        """Let waits count from now that were set while the clock was ahead; return their runs."""
        retimed, subjects = await self.write(retime)
        self.database.tell(subjects)
        return retimed

    async def locate(self) -> None:
        """Learn where the database is, for callers' connections that cannot wait for that."""
        await self.database.locate()

    def subscribe(self, subjects: Iterable[str]) -> Subscription:
        """Return a subscription for hints on these subjects."""
        return self.database.hints.subscribe(subjects)

    async def _write_starts(self, starts: list[Start]) -> Sequence[Started | LeaseLost]:
        failpoint("start.before")
        answers = await self.database.start(starts)
        failpoint("start.after")
        self.database.tell({queue_subject(start.run.queue) for start in starts})
        return answers

    async def _write_messages(self, messages: list[NewMessage]) -> Sequence[SentMessage | None]:
        failpoint("send.before")
        answers = await self.database.send(messages)
        failpoint("send.after")
        self.database.tell(subjects_of(filter(None, answers)))
        return answers


def open_store(
    url: str,
    *,
    namespace: str = "default",
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    spawn: Spawn | None = spawn_thread,
    hints: str | None = None,
) -> Store:
    """Return the store at an address; enter it to connect.

    Args:
        url: A file name, `:memory:`, or `postgresql://…`.
        namespace: The tenant; nothing is read or written outside it.
        clock: Where time is read; on Postgres the database's own clock unless given.
        randomness: Where ids come from.
        spawn: How threads are started. `None` makes SQLite work in the caller's thread, so that a
            simulation decides every turn.
        hints: The address of a Redis through which processes are told of changes, beside whatever
            the database does for that. It may be away at any time.

    Raises:
        BadInput: the address of the Redis cannot be understood.
        BadStoreUrl: the address cannot be understood.
        StoreUnusable: the driver for it is not installed.
    """
    address = parse(url)
    real_clock = clock or SystemClock()
    database: Database
    if isinstance(address, SqliteAddress):
        database = SqliteDatabase(address, namespace, real_clock, spawn)
    else:
        try:
            from onward.store.postgres.database import PostgresDatabase
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            advice = "Install it: pip install 'onward[postgres]'"
            raise StoreUnusable(str(address), "needs the driver asyncpg", advice) from error
        database = PostgresDatabase(address, namespace, clock)
    redis: RedisCarrier | None = None
    if hints is not None:
        from onward.store.redis import RedisCarrier

        redis = RedisCarrier(hints)
    return Store(database, namespace, real_clock, randomness or SystemRandomness(), redis)
