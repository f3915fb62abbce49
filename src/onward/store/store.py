"""The store: one set of functions over SQLite and Postgres, behind group commits."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onward.core.lease import LEASE, unknown
from onward.errors import LeaseLost
from onward.model.claims import ClaimNotes
from onward.model.messages import SentMessage
from onward.model.runs import Start
from onward.model.stopping import ForcedEnd, PauseAnswer, Stopped
from onward.store.hints import ANYTHING, queue_subject
from onward.store.leases import Leases
from onward.store.runs.flows import change_flow, is_declared
from onward.store.runs.following import follow
from onward.store.runs.holding import pause, resume
from onward.store.runs.maintenance import (
    disown,
    gone_workers,
    has_other_workers,
    keep_progress,
    note_blocked,
    parked,
    release,
    remove_workers,
    resign,
    retime,
    unpark,
)
from onward.store.runs.reads import Reads
from onward.store.runs.stopping import give_up, overdue, stop, subjects_of
from onward.store.writing.group_commit import GroupCommit
from onward.store.writing.lane import Lane
from onward.store.writing.text_limits import (
    check_following,
    check_key,
    check_message,
    check_run,
    is_storable,
)
from onward.store.writing.writer import Writer
from onward.system.clock import Uids
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType

    from onward.core.flow import FlowId
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Randomness
    from onward.model.claims import Wanted
    from onward.model.flow import DeclaredLimits, FlowRow
    from onward.model.following import Followed, Following
    from onward.model.messages import NewMessage
    from onward.model.runs import ClaimedRun, Move, NewRun, RunOwner, Started
    from onward.model.workers import WorkerOffer
    from onward.store.caller_writes import CallerWrites
    from onward.store.database import Database, Tx
    from onward.store.hints import Subscription
    from onward.store.redis import RedisCarrier, RedisChannel

T = TypeVar("T")

MAX_SWEEP = 500


class Store(Leases, Reads):
    """A namespace in a database. Open it with `async with`.

    Every call is safe to repeat: the client makes the ids, and every statement recognises its own
    result. Cancelling the task that awaits a call does not undo or damage it.

    Args:
        database: The namespace in the database.
        namespace: Its name.
        clock: Where the machine's time is read.
        randomness: Where ids come from.
        redis: Carries hints to other processes, in addition to the database.
        owner: The store whose connections this one shares.
    """

    def __init__(
        self,
        database: Database,
        namespace: str,
        clock: Clock,
        randomness: Randomness,
        redis: RedisCarrier | None = None,
        owner: Store | None = None,
    ) -> None:
        self.database = database
        self.namespace = namespace
        self._redis = redis
        self._redis_channel: RedisChannel | None = None
        self._owner = owner
        self._views: dict[Store, None] = {}
        """Other namespaces that share the connections of this store, while they are open."""
        self._randomness = randomness
        self._clock = clock
        self._uids = Uids(clock, randomness)
        self._starts: Lane[Start, Started | LeaseLost] = Lane(
            self._write_starts, name="onward starts", key=lambda start: start.run.id
        )
        self._sends: Lane[NewMessage, SentMessage] = Lane(
            self._write_messages, name="onward messages", key=lambda message: message.target
        )
        self._writers: dict[str, Writer] = {}
        self._shared_group: GroupCommit | None = None

    def view(self, namespace: str) -> Store:
        """Return a store of another namespace that shares all connections of this one.

        Open it with `async with`. Closing it leaves the other stores alone; closing the store that
        has the connections closes all views of it first.
        """
        owner = self._owner or self
        database = owner.database.in_namespace(namespace)
        return Store(database, namespace, self._clock, self._randomness, owner._redis, owner)

    async def __aenter__(self) -> Self:
        await self.database.open()
        if self._redis is not None:
            try:
                await self._start_redis(self._redis)
            except BaseException:
                await self.database.close()
                raise
        if self._owner is not None:
            self._owner._views[self] = None
        return self

    async def _start_redis(self, redis: RedisCarrier) -> None:
        async def identify(tx: Tx) -> int:
            drawn = int(self.new_uid()[-12:], 16)
            await tx.fetch("take_identity", identity=drawn)
            return int((await tx.fetch("identity"))[0][0])

        identity = await self.write(identify)
        name = f"onward:{identity}:{self.namespace}"
        self._redis_channel = await redis.join(name, self.database.hints)
        if self._owner is None:
            redis.start(self.new_uid())
        self.database.carrier = self._redis_channel

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with AsyncExitStack() as last:
            last.push_async_callback(self.database.close)
            last.push_async_callback(self._leave_redis)
            if self._owner is not None:
                self._owner._views.pop(self, None)
            for view in list(self._views):
                await view.__aexit__(None, None, None)
            await self._starts.close()
            await self._sends.close()
            for writer in self._writers.values():
                await writer.group.close()
            if self._shared_group is not None:
                await self._shared_group.close()

    async def _leave_redis(self) -> None:
        channel, self._redis_channel = self._redis_channel, None
        if channel is not None:
            await channel.leave()
        if self._redis is not None and self._owner is None:
            await self._redis.close()

    # --- clients ---------------------------------------------------------------------------------

    def new_uid(self) -> str:
        """Return a new id that sorts by time, after all that this store made before."""
        return self._uids.new()

    async def start(self, run: NewRun, owner: RunOwner | None = None) -> Started:
        """Start a run, unless one of that id exists; the answer says which.

        Args:
            run: The run.
            owner: The owner of the run that starts it, which must still own that run.

        Raises:
            LeaseLost: the owner has lost its run; nothing was started.
        """
        check_run(run)
        started = await self._starts.submit(Start(run, owner))
        if isinstance(started, LeaseLost):
            raise started
        return started

    async def send(self, message: NewMessage) -> SentMessage:
        """Put a message into a run's inbox; a message id that exists already changes nothing."""
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
        """End a run at once, and send messages about it to its parent and its children.

        Args:
            target: The id of a run or else a uid. A run that is followed means its follower.
            state: The final state.
            reason: The reason for it.
            error: The error of the run.
            unstarted_only: Do nothing if the run was ever claimed.
            by_uid: The target is a uid, even if it is the id of another run.
        """
        if not is_storable(target):
            return Stopped(None, "absent")
        how = ForcedEnd(state, reason, error, unstarted_only)
        return await self._write_and_publish(lambda tx: stop(tx, target, how, by_uid=by_uid))

    async def pause(self, target: str) -> PauseAnswer:
        """Pause a run, by its uid or the newest of an id, and all runs that work for it."""
        return await self._hold(target, pause)

    async def resume(self, target: str) -> PauseAnswer:
        """Resume a run, and all runs that only its pause held."""
        return await self._hold(target, resume)

    async def _hold(
        self,
        target: str,
        change: Callable[[Tx, str, str], Coroutine[Any, Any, tuple[PauseAnswer, set[str]]]],
    ) -> PauseAnswer:
        if not is_storable(target):
            return PauseAnswer(None, "absent")
        message = self.new_uid()  # made once, so that a repeated transaction sends it once
        return await self._write_and_publish(lambda tx: change(tx, target, message))

    async def follow(self, following: Following) -> Followed:
        """Start a run that follows another: a retry, continuation, fork or replacement."""
        check_following(following)
        return await self._write_and_publish(lambda tx: follow(tx, following))

    async def declare(
        self, flow: FlowId, limits: DeclaredLimits, owner: RunOwner | None = None
    ) -> None:
        """Write the limits that the code declares for a queue, a workflow or a key.

        Raises:
            LeaseLost: the owner has lost its run.
        """
        check_key(f"the {flow.kind}", flow.name)
        if not await self.read(lambda tx: is_declared(tx, flow, limits)):
            await self.write(
                lambda tx: change_flow(tx, flow, lambda row: row.declare(limits), owner)
            )

    async def change_flow(self, flow: FlowId, change: Callable[[FlowRow], FlowRow]) -> FlowRow:
        """Change what an operator says of a queue, a workflow or a key, and wake its workers."""
        check_key(f"the {flow.kind}", flow.name)
        row = await self.write(lambda tx: change_flow(tx, flow, change))
        self.database.publish({ANYTHING})
        return row

    # --- workers ---------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted, notes: ClaimNotes | None = None) -> list[ClaimedRun]:
        """Assign runs to a worker: ready ones, due ones, and those whose worker vanished.

        Args:
            wanted: What the worker takes.
            notes: Where the claim notes what the caller may have to know.
        """
        failpoint("claim.before")
        once = tuple(dict.fromkeys(wanted.queues))  # or a run would be claimed as often
        claimed = await self.database.claim(replace(wanted, queues=once), notes or ClaimNotes())
        failpoint("claim.after")
        return claimed

    async def give_up(self, by: RunOwner, move: Move, code: str | None = None) -> bool:
        """End a run that its worker has claimed and cannot begin; return whether it owned it.

        `code` is what the worker has under the name of the run.
        """
        return await self._write_and_publish(lambda tx: give_up(tx, by, move, code))

    @property
    def group_commit(self) -> GroupCommit:
        """The group commit that any number of workers of this process may share."""
        if self._shared_group is None:
            self._shared_group = GroupCommit(self.database, self._clock, "shared")
        return self._shared_group

    def writer(self, worker: str, group: GroupCommit | None = None) -> Writer:
        """Return the writer of a worker.

        Args:
            worker: The worker.
            group: The group commit to use, such as `group_commit`. None makes one for this worker
                alone. The first call for a worker decides.
        """
        if worker not in self._writers:
            own = group or GroupCommit(self.database, self._clock, worker)
            self._writers[worker] = Writer(own, worker, is_shared=group is not None)
        return self._writers[worker]

    def part(self, worker: str) -> None:
        """Forget the writer of a worker that has left, unless it is still writing."""
        writer = self._writers.get(worker)
        if writer is not None and writer.is_idle:
            del self._writers[worker]

    async def audit(self, worker: str, known: Container[str]) -> list[str]:
        """Release the runs that are assigned to a worker and unknown to it, and return them.

        A claim whose reply was lost leaves such runs. The worker must not claim meanwhile.
        """
        owned = await self.owned(worker)
        lost = {uid: owned[uid] for uid in unknown(owned, known)}
        if lost:
            self.database.publish(await self.write(lambda tx: disown(tx, worker, lost.items())))
        return list(lost)

    async def resign(self, worker: str, held: Mapping[str, int]) -> list[str]:
        """Release all runs of a worker whose lease is lost, and return them.

        No crash is counted for them, nor for those of `held` (uid and fence) that another worker
        has adopted meanwhile. The worker must not write any more.
        """
        await self.database.drop_lease(worker)
        return await self._write_and_publish(lambda tx: resign(tx, worker, held))

    async def release_others(
        self, worker: str, blocking: Container[str], length: Duration = LEASE
    ) -> dict[str, int]:
        """Release the runs of a worker but for those `blocking` it, if another worker is alive.

        The worker keeps its lease, which begins anew for `length`.

        Returns:
            The runs that were released, with the fences that the worker had.
        """
        owned = await self.owned(worker)
        others = {uid: owned[uid] for uid in unknown(owned, blocking)}
        if not others or not await self.read(lambda tx: has_other_workers(tx, worker)):
            return {}
        return await self._write_and_publish(lambda tx: release(tx, worker, others, length))

    async def note_blocked(self, worker: str, uid: str, error: bytes) -> None:
        """Store an error of a run that a worker has, for the case that the run is ended for it."""
        await self.write(lambda tx: note_blocked(tx, worker, uid, error))

    async def register(self, worker: dict[str, object]) -> bool:
        """Add the row of a worker that operators see; return False if another key has its id."""
        row: dict[str, object] = {"slots": 0, "key_id": ""} | worker
        return bool(await self.write(lambda tx: tx.fetch("register_worker", **row)))

    async def key_of_worker(self, worker: str) -> str | None:
        """Return the id of the key with which a worker has joined; None if it is unknown."""
        if not is_storable(worker):
            return None
        rows = await self.read(lambda tx: tx.fetch("key_of_worker", worker=worker))
        return rows[0][0] if rows else None

    async def drain_worker(self, worker: str) -> bool:
        """Let a worker take no more runs and leave; return False if it is not there."""
        if not is_storable(worker):
            return False
        rows = await self.write(lambda tx: tx.fetch("drain_worker", worker=worker))
        return bool(rows)

    async def take_over_drain(self, worker: str, before: str) -> bool:
        """Let a worker leave if the one whose place it takes was to; return whether it is to."""
        given = {"worker": worker, "before": before}
        return bool(await self.write(lambda tx: tx.fetch("take_over_drain", **given)))

    async def unregister(self, worker: str) -> None:
        """Note in the row of a worker that it has left."""
        await self.write(lambda tx: tx.fetch("unregister_worker", worker=worker))

    async def remove_workers(self, limit: int = 100) -> int:
        """Remove the rows of workers that left or died long ago; return how many."""
        gone = await self.read(lambda tx: gone_workers(tx, limit))
        if not gone:
            return 0
        return await self.write(lambda tx: remove_workers(tx, gone))

    async def sweep(self) -> int:
        """Move messages from the outbox into inboxes; return how many."""
        rows = await self.read(lambda tx: tx.fetch("outbox_waiting"))
        if not rows[0][0]:
            return 0
        sent = await self.database.sweep(MAX_SWEEP)
        self.database.publish(subjects_of(sent))
        return len(sent)

    async def overdue(self, limit: int = 100) -> int:
        """End runs past their deadline that never began, notify the others; return how many."""
        return await self._write_and_publish(lambda tx: overdue(tx, limit))

    async def unpark(self, codes: Mapping[str, str], server: WorkerOffer | None = None) -> int:
        """Make runs ready that other code has parked; `codes` has the code of each workflow.

        With `server`, only those that such a worker would take.
        """
        if not await self.read(lambda tx: parked(tx, codes, server)):
            return 0
        return await self._write_and_publish(lambda tx: unpark(tx, codes, server))

    async def keep_progress(self, worker: str, uid: str, fence: int, value: bytes) -> bool:
        """Store the progress of a run; return whether the worker still owns it."""
        return await self.write(lambda tx: keep_progress(tx, worker, uid, fence, value))

    # --- both ------------------------------------------------------------------------------------

    async def write(self, work: Callable[[Tx], Coroutine[Any, Any, T]]) -> T:
        """Run `work` in a transaction; it may be run again, whole, so it may only use its `Tx`."""
        return await self.database.write(work)

    async def _write_and_publish(
        self, work: Callable[[Tx], Coroutine[Any, Any, tuple[T, set[str]]]]
    ) -> T:
        """Run `work`, which returns its result and the hints to publish once it has committed."""
        result, subjects = await self.write(work)
        self.database.publish(subjects)
        return result

    def within(self, connection: object, *, waits: bool = True) -> CallerWrites:
        """Return the store as seen from a caller's open transaction: its writes join the caller's.

        Args:
            connection: The caller's connection; it is checked before the first write.
            waits: The connection may be an async one. If it is not, nothing here needs an event
                loop once `locate` was called.

        Raises:
            StoreUnusable: connections of this kind are not supported.
        """
        return self.database.within(connection, waits=waits)

    def machine_time(self) -> Instant:
        """Return the time of the machine's clock, which may differ from the store's."""
        return self._clock.wall()

    async def reset_clock(self) -> Duration:
        """Set the store's time to the machine's clock, and return by how much it was ahead.

        Raises:
            StoreUnusable: the database has a clock of its own.
        """
        return await self.database.reset_clock()

    async def retime(self) -> list[str]:
        """Restart the waits that were set while the clock was ahead; return their runs."""
        return await self._write_and_publish(retime)

    async def locate(self) -> None:
        """Learn which server this is, for callers' connections that cannot await that."""
        await self.database.locate()

    def subscribe(self, subjects: Iterable[str]) -> Subscription:
        """Subscribe to hints on these subjects."""
        return self.database.hints.subscribe(subjects)

    async def _write_starts(self, starts: list[Start]) -> Sequence[Started | LeaseLost]:
        failpoint("start.before")
        answers = await self.database.start(starts)
        failpoint("start.after")
        self.database.publish({queue_subject(start.run.queue) for start in starts})
        return answers

    async def _write_messages(self, messages: list[NewMessage]) -> Sequence[SentMessage | None]:
        failpoint("send.before")
        answers = await self.database.send(messages)
        failpoint("send.after")
        self.database.publish(subjects_of(filter(None, answers)))
        return answers
