"""The worker: claims runs, keeps them going, and gives them back when it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import math
from contextvars import copy_context
from typing import TYPE_CHECKING

from onward.core.run import rooms_beside
from onward.errors import LeaseLost, OnwardError
from onward.model.claims import Wanted
from onward.model.worker_offer import WorkerOffer
from onward.runtime.attempts.perform import Performer
from onward.runtime.attempts.sender import Sender
from onward.runtime.attempts.tasks import contained_tasks
from onward.runtime.attempts.threads import StepThreads
from onward.runtime.execution.execution import End
from onward.runtime.execution.loop_monitor import LoopMonitor
from onward.runtime.execution.reporting import report_claimed, report_left
from onward.runtime.worker.beginning import Beginnings
from onward.runtime.worker.body_cache import BodyCache
from onward.runtime.worker.database_time import DatabaseTime
from onward.runtime.worker.engine_calls import EngineCalls
from onward.runtime.worker.inbox_reader import InboxReader
from onward.runtime.worker.lease_renewer import LeaseRenewer
from onward.runtime.worker.loop_watch import Watch
from onward.runtime.worker.maintenance import Chores
from onward.runtime.worker.options import LEASE_ALONE
from onward.runtime.worker.outage import AWAY, Outage
from onward.runtime.worker.programs import Programs
from onward.runtime.worker.progress import ProgressBoard
from onward.store.hints import queue_subject, run_subject
from onward.telemetry.events import emit
from onward.telemetry.interrupts import traceable_interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.model.commits import Commit, CommitOutcome
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.attempts.perform import StepOwner
    from onward.runtime.body.calls import StepCall
    from onward.runtime.definition import Limits
    from onward.runtime.execution.execution import Execution
    from onward.runtime.registry import Registry
    from onward.runtime.worker.options import Options, Ports
    from onward.store.hints import Subscription
    from onward.store.store import Store

POLL_SECONDS = 1.0
"""How late a worker may be when hints are lost."""

MAX_DOUBLED = 30
"""How often that is doubled at most by a worker that finds nothing, where hints are not lost."""

MAX_CLAIM = 500

LEAVE_SECONDS = 1.0
"""How long a worker that leaves waits at least for the store to take its runs back."""


class Worker:
    """Works on the runs of some queues until it is stopped."""

    def __init__(
        self, store: Store, registry: Registry, options: Options, limits: Limits, ports: Ports
    ) -> None:
        self.id = f"{ports.host}-{ports.pid}-{ports.randomness.token()[:12]}"
        self.observer = ports.observer
        self.running: dict[str, Execution] = {}
        self._warm = BodyCache(options.warm)
        self.outage = Outage(self.id, ports.randomness, ports.observer)
        self._postman = InboxReader(store, self.id, self.outage)
        self._store = store
        self._registry = registry
        self._options = options
        self._limits = limits
        self._clock = ports.clock
        self._randomness = ports.randomness
        self._spawn = ports.spawn
        self._place = ports.host, ports.pid
        # A database in memory cannot be reached from a second store, nor taken by anyone else.
        self._has_thread = ports.spawn is not None and not store.database.is_private
        self._lease = LEASE_ALONE if options.is_alone else options.lease
        self._keeper = LeaseRenewer(
            self.id,
            self._lease,
            ports.open_store,
            ports.clock,
            self._keeper_failed,
            ports.observer,
        )
        self.version = options.version
        self.programs = Programs(registry, options.version)
        self._beginnings = Beginnings(self, store)
        self._time = DatabaseTime(ports.clock, self._clock_stepped)
        self._chores = Chores(store, self.id, ports.clock, self._time, self.programs)
        self.names = registry
        self.turns = LoopMonitor()
        self.context = copy_context()
        self.engine_calls = EngineCalls(store, self.id, ports.randomness, self.outage)
        self._writer = store.writer(self.id)
        self._writer.on_written = self._time.learn
        self._writer.through = self.outage.through
        self._writer.observer = ports.observer
        self._stopping = self._is_cancelled = False
        self.ready = asyncio.Event()
        self._ear: Subscription | None = None
        self._failure: Exception | None = None
        self.held: dict[str, int] = {}
        """The runs that it lost, or may have lost, with its lease, each with its fence."""
        self._lost_at = 0
        self._claimed_at = 0
        self._registered: tuple[str, ...] = ()
        self._idled = 0

    # --- what an execution needs -----------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which everything but bodies runs."""
        return self._loop

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        return self._time.now()

    def commit(self, commit: Commit) -> asyncio.Future[CommitOutcome]:
        """Write, together with whatever else has gathered."""
        return self._writer.submit(commit)

    def perform(self, owner: StepOwner, call: StepCall) -> Attempt:
        """Start an attempt of a step, which calls `owner` when it ends."""
        return self._performer.perform(owner, call)

    @property
    def clock(self) -> Clock:
        """A clock of this machine that counts the time it was suspended."""
        return self._clock

    def randomness(self) -> float:
        """Return a number in [0, 1)."""
        return self._randomness.random()

    def progress(self, execution: Execution, value: bytes) -> None:
        """Let others see how far a run is; from any thread."""
        self._board.put(execution.uid, execution.fence, value)

    def look(self, execution: Execution) -> None:
        """Read a run's inbox, and tell it."""
        self._postman.go_again(execution)

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that a run left this worker's hands."""
        current = self.running.get(execution.uid)
        if current is not None:
            report_left(self.observer, execution.scope, execution.move, self.now())
        if current is not execution:  # it came back to us before we heard that it had left
            execution.forget()
            return
        del self.running[execution.uid]
        if end is End.LOST and execution.move is None:
            self.held[execution.uid] = execution.fence
            self._lost_at = self._clock.monotonic()
        assert self._ear is not None
        self._ear.subjects.discard(run_subject(execution.uid))
        if end is End.PARKED and not self._stopping:
            self._warm.keep(execution)
        elif end is End.PARKED:
            execution.forget()
        self._ear.wake()

    # --- life ------------------------------------------------------------------------------------

    async def run(self, before: Worker | None = None) -> None:
        """Work until `stop()`; then let what is being worked on come to an end, or give it back.

        Args:
            before: The worker of this process that lost its lease, whose place this one takes.
                Then the store was open before, and is waited for if it is away.

        Raises:
            LeaseLost: another worker has taken over; whatever this one did since was not written.
        """
        failure: Exception | None = None
        try:
            with traceable_interrupts(), contained_tasks(asyncio.get_running_loop()):
                await self._live(before)
        except LeaseLost:
            raise
        except Exception as error:
            failure = error
            raise
        finally:
            self.observer.worker_left(self.id, failure)

    async def _live(self, before: Worker | None) -> None:
        self._loop = asyncio.get_running_loop()
        spawn = self._spawn
        threads = None if spawn is None else StepThreads(self._options.threads, spawn)
        self._performer = Performer(
            self._loop, threads, self._randomness, self._limits, self.now, self.observer
        )
        self.sender = Sender(self._loop, threads, self._clock, self.observer)
        self._board = ProgressBoard(self._store, self.id, self._loop)
        if before is None:
            await self._join()
        else:
            await self.outage.through(lambda: self._join(before), alone=True)
        for name, places in self._registry.unclear.items():
            emit("worker.unclear", worker=self.id, workflow=name, places=places)
        if self._has_thread:
            assert self._spawn is not None
            self._keeper.start(self._spawn)
        watch = Watch(self.turns, self._clock, self.observer)
        if spawn is not None:
            watch.start(spawn, f"onward-watch-{self.id}")
        try:
            with self._store.subscribe(
                queue_subject(queue) for queue in self._options.queues
            ) as subscription:
                self._ear = subscription
                self.ready.set()
                self.observer.worker_ready(self.id)
                await self._work_unless_cancelled()
        finally:
            watch.stop()
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)
            self._performer.close()
            await self._leave()

    async def _join(self, before: Worker | None = None) -> None:
        """Take a lease, and let others know what this worker takes; it may be done again."""
        if before is not None:
            await self._store.resign(before.id, before.held)
            await self._store.unregister(before.id)
        await self._ask_time()
        await self._store.take_lease(self.id, self._lease)
        await self._register()
        await self._chores.declare(self._registry.limits)

    def stop(self) -> None:
        """Claim no more and leave."""
        self._stopping = True
        if self._ear is None:
            self.outage.give_up()  # it has not even begun
        else:
            self._ear.wake()

    async def _work_unless_cancelled(self) -> None:
        """Work; cancelled, finish the claim under way and give everything back at once.

        Ctrl-C, or an error of the code around a worker, is no crash of its runs.
        """
        working = asyncio.ensure_future(self._work())
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            self._is_cancelled = True
            self.stop()
            await asyncio.wait([working], timeout=self._options.drain / 1_000_000)
            is_ending = working.cancelled()  # the loop ends, and with it every task
            working.cancel()  # if the store does not answer
            await asyncio.gather(working, return_exceptions=True)
            if is_ending:
                await asyncio.wait_for(self._drain(), self._options.drain / 1_000_000)
            raise

    async def _work(self) -> None:
        while not self._stopping and self._failure is None:
            self._keeper.loop_ticked()
            claimed = 0
            try:
                if not self._has_thread:
                    await self._keeper.tick(self._store)
                claimed = await self.tick()
            except AWAY as error:
                self._chores.audit_soon()  # a claim may have been made, but not answered
                await self._wait(self.outage.met(error))
                continue
            self.outage.over()
            if claimed:
                self._idled = 0
            else:
                await self._idle()
        if self._failure is not None:
            raise self._failure
        await self._drain()

    async def tick(self) -> int:
        """Claim, begin what was claimed, and say how many that was.

        Chores come after a claim that found nothing, or once a second: whoever has just started a
        run is not to wait for them.
        """
        self._claimed_at = self._clock.monotonic()
        await self._chores.audit(self.running)
        if self.held and self._keeper.renewed > self._lost_at:
            self.held.clear()  # the lease was there afterwards, so it was not lost with that
        claimed = await self._claim()
        if not claimed or self._chores.are_due:
            was_limited = self._chores.limited
            await self._chores.do()
            if self._chores.limited and not was_limited:
                claimed += await self._claim()
        return claimed

    async def _claim(self) -> int:
        free = self._options.slots - len(self.running)
        if free <= 0:
            return 0
        if self._registered is not self._registry.names:  # another name is clear by now
            await self._register()
        begun = self._clock.monotonic()
        assert self._ear is not None
        self._ear.others = set()
        claimed = await self._store.claim(
            Wanted(
                self.id,
                self._options.queues,
                self._registry.names,
                min(free, MAX_CLAIM),
                self._options.version,
                self._options.tags,
                suspects=rooms_beside((run.crashes for run in self.running.values()), free),
                limited=self._chores.limited,
                unanswered=self._chores.audit_soon,
            )
        )
        self.observer.claim_took(self.id, len(claimed), self._clock.monotonic() - begun)
        if claimed:
            self._time.learn(claimed[0].claimed_at, begun)
        await self._beginnings.begin(claimed)
        self._hear_early(claimed, self._ear)
        return len(claimed)

    def _hear_early(self, claimed: Sequence[ClaimedRun], subscription: Subscription) -> None:
        """Look at runs that something was sent to after they were claimed and before we knew."""
        others, subscription.others = subscription.others or set(), None
        early = others & {run_subject(run.uid) for run in claimed}
        if early:
            self._postman.go_round(self.running, early)

    def take_warm(self, runs: Sequence[ClaimedRun]) -> dict[str, Execution]:
        """Return the bodies of these runs that are still in memory."""
        return {run.uid: kept for run in runs if (kept := self._warm.take(run)) is not None}

    def own(self, execution: Execution, run: ClaimedRun) -> None:
        """Take a run into this worker's hands."""
        self.running[execution.uid] = execution
        report_claimed(self.observer, execution.scope, run)
        assert self._ear is not None
        self._ear.subjects.add(run_subject(execution.uid))

    async def _idle(self) -> None:
        """Wait until there may be something to do: a hint, a due time, or the next poll."""
        due = await self._next_due()
        seconds = self._poll_seconds(due)
        if due is not None:
            seconds = min(seconds, max(0.0, (due - self.now()) / 1_000_000))
        self._idled += 1
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        """Wait for a hint, and let the runs know that something was sent to them."""
        assert self._ear is not None
        end = self._loop.time() + seconds
        heard = await self._ear.wait(seconds)
        if heard or self._loop.time() >= end:
            self._postman.go_round(self.running, heard)

    def _poll_seconds(self, due: Instant | None) -> float:
        """Return how long to wait at most before looking again."""
        if not self._options.is_alone or self._chores.limited:
            return POLL_SECONDS
        # A test may put the clock forward: then what is due comes sooner than the timer for it.
        return math.inf if due is None else POLL_SECONDS * 2 ** min(self._idled, MAX_DOUBLED)

    async def _next_due(self) -> Instant | None:
        # What was due when we claimed and is still there is not for us to take, or not now: a
        # worker without a free slot would ask for it without a pause.
        # That time follows from what the database has said since: its clock may have been set back.
        since = self._clock.monotonic() - self._claimed_at
        try:
            return await self._store.next_due(self.now() - since)
        except AWAY:
            return None

    # --- the end ---------------------------------------------------------------------------------

    async def _drain(self) -> None:
        """Let steps that run come to their end for a while, then give back what is left."""
        assert self._ear is not None
        for execution in self.running.values():
            execution.wind_down()
        end = self._loop.time() + self._options.drain / 1_000_000
        while self._has_steps() and not self._is_cancelled and self._loop.time() < end:
            await self._ear.wait(end - self._loop.time())
        for execution in list(self.running.values()):
            execution.release()
        # While the store is away nothing can be given back: then the lease runs out by itself.
        last = self._loop.call_at(max(end, self._loop.time() + LEAVE_SECONDS), self.outage.give_up)
        await self.engine_calls.close()
        await self._board.close()
        await self._writer.close()
        last.cancel()

    def _has_steps(self) -> bool:
        return any(not execution.is_idle for execution in self.running.values())

    async def _leave(self) -> None:
        self.outage.give_up()
        for execution in list(self.running.values()):
            self.held[execution.uid] = execution.fence
            execution.forget()
            report_left(self.observer, execution.scope, None, self.now())
        self.running.clear()
        self._warm.clear()
        self._postman.stop()
        if self._has_thread:
            await asyncio.to_thread(self._keeper.stop)
        if not isinstance(self._failure, LeaseLost):
            with contextlib.suppress(OnwardError):  # then the lease runs out by itself
                if self._failure is None:  # what was claimed as we were cut short is no crash
                    await self._store.audit(self.id, ())
                await self._store.drop_lease(self.id)
                await self._store.unregister(self.id)
        self._store.part(self.id)

    def _keeper_failed(self, failure: Exception) -> None:
        self._failure = failure
        if self._ear is not None:
            self._loop.call_soon_threadsafe(self._ear.wake)

    # --- time ------------------------------------------------------------------------------------

    async def _ask_time(self) -> None:
        asked = self._clock.monotonic()
        self._time.learn(await self._store.now(), asked)

    def _clock_stepped(self, step: Duration) -> None:
        """Tell of a clock that was set, and look again at what the runs here wait for."""
        if self._store.database.capabilities.clock:  # or the store tells it, for all workers
            self.observer.clock_stepped(self.id, step)
        for execution in self._warm:
            execution.waits.clock_stepped(step)  # the attempts of their steps wait on record
        for execution in list(self.running.values()):
            execution.waits.clock_stepped(step, execution.body.calls.values())
            self._loop.call_soon(execution.pump, context=self.context)

    # --- what others know ------------------------------------------------------------------------

    async def _register(self) -> None:
        """Let others know what this worker takes."""
        names, options = self._registry.names, self._options
        queues, tags = frozenset(options.queues), frozenset(options.tags)
        self._chores.serves = WorkerOffer(queues, frozenset(names), options.version, tags)
        await self._store.register(self._registration())
        self._registered = names

    def _registration(self) -> dict[str, object]:
        host, pid = self._place
        return {
            "worker": self.id,
            "host": host,
            "pid": pid,
            "version": self._options.version,
            # No name has a line break in it; some have spaces.
            "queues": "\n".join(self._options.queues),
            "tags": "\n".join(self._options.tags),
            "names": "\n".join(self._registry.names),
        }
