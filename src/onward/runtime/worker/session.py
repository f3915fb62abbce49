"""A worker that is alive: under one id and one lease, with the runs that it has."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.run import RunState
from onward.engine.database_time import DatabaseTime
from onward.engine.worker_engine import WorkerHooks
from onward.errors import LeaseLost, OnwardError
from onward.model.workers import LostWorker, Registration
from onward.runtime.attempts.perform import Performer
from onward.runtime.attempts.phase import PhaseAttempt
from onward.runtime.attempts.sender import Sender
from onward.runtime.attempts.tasks import contained_tasks
from onward.runtime.attempts.threads import StepThreads
from onward.runtime.execution.debug_monitor import monitor_for
from onward.runtime.execution.host import End
from onward.runtime.execution.ledger import is_sending
from onward.runtime.execution.reporting import report_claimed, report_left
from onward.runtime.worker.beginning import Beginnings
from onward.runtime.worker.body_cache import BodyCache
from onward.runtime.worker.claiming import Claiming
from onward.runtime.worker.engine_calls import EngineCalls
from onward.runtime.worker.engine_reads import EngineReads
from onward.runtime.worker.inbox_reader import InboxReader
from onward.runtime.worker.lease_renewer import LeaseRenewer
from onward.runtime.worker.loop_watch import BlockedLoopWatch
from onward.runtime.worker.options import LEASE_ALONE
from onward.runtime.worker.outage import AWAY, Outage
from onward.runtime.worker.process import EXIT_STUCK
from onward.runtime.worker.programs import Programs
from onward.runtime.worker.progress import ProgressBoard
from onward.runtime.worker.stall_guard import StallGuard
from onward.system.clock import Uids
from onward.system.exiting import call_in_thread
from onward.system.process import exit_now
from onward.telemetry.events import emit
from onward.telemetry.interrupts import traceable_interrupts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onward.core.instant import Duration
    from onward.engine.worker_engine import Renewer
    from onward.model.runs import ClaimedRun
    from onward.model.workers import News
    from onward.runtime.definition import Limits
    from onward.runtime.execution.execution import Execution
    from onward.runtime.execution.host import HostedRun
    from onward.runtime.registry import Registry
    from onward.runtime.worker.loop_watch import Stall
    from onward.runtime.worker.options import Options, Ports

LEAVE_SECONDS = 1.0
"""How long a worker that leaves waits at least for the engine to take its runs back."""


class WorkerSession:
    """Works on the runs of some queues until it is stopped or loses its lease.

    Args:
        registry: What it can run.
        options: How much it takes on.
        limits: The retries and timeouts of steps that have none of their own.
        ports: How it reaches the engine and the machine.
        ready: Set once it begins to claim.
        before: The session of this process that lost its lease, whose place this one takes. Then
            the engine was there before, and is waited for if it is away.
    """

    def __init__(
        self,
        registry: Registry,
        options: Options,
        limits: Limits,
        ports: Ports,
        ready: asyncio.Event,
        before: LostWorker | None = None,
    ) -> None:
        clock, randomness, self.observer = ports.clock, ports.randomness, ports.observer
        self.id = f"{ports.host}-{ports.pid}-{randomness.token()[:12]}"
        self.loop = asyncio.get_running_loop()
        self.context = copy_context()
        self.clock = clock
        self.randomness = randomness.random
        self.version = options.version
        self.loop_monitor = monitor_for(options.debug_allow)
        self.names = registry
        self.running: dict[str, Execution] = {}
        self.held: dict[str, int] = {}
        """The runs that it lost, or may have lost, with its lease, each with its fence."""
        self.released: Mapping[str, int] = {}  # perhaps before they could begin
        self._registry, self._options, self._ports = registry, options, ports
        self._ready, self._before = ready, before
        self._registered: tuple[str, ...] = ()
        self._cache = BodyCache(options.warm)
        self._time = DatabaseTime(clock, self._clock_stepped)
        self.now, self.latest = self._time.now, self._time.latest
        self._outage = Outage(self.id, randomness, self.observer)

        hooks = WorkerHooks(self._time.learn, self._outage.through, self.observer, self._on_drain)
        self._engine = ports.connect(self.id, hooks)
        self.commit = self._engine.submit
        reads = EngineReads(self._engine, self._outage, Uids(clock, randomness))
        self.programs = Programs(registry, options.version, reads)
        self.engine_calls = EngineCalls(self._engine, self.id, randomness, self._outage)
        self._inbox_reader = InboxReader(self._engine, self._outage)
        self._beginnings = Beginnings(self, self._engine)
        self.claiming = Claiming(self, self._engine, options, clock)
        self._progress = ProgressBoard(self._engine, self.loop)
        self._lease = LEASE_ALONE if options.is_alone else options.lease
        self._watch = BlockedLoopWatch(self.loop_monitor, clock, self.observer, self.loop)
        self._stall_guard = StallGuard(self, self._watch, options, clock)
        self._renewer = LeaseRenewer(
            self.id, self._lease, self._engine, clock, self._renewer_failed, self.observer
        )
        self.exits_when_stuck = False  # the process, when the event loop is blocked for too long

        spawn = ports.spawn
        self._threads = None if spawn is None else StepThreads(options.threads, spawn)
        given = (self.loop, self._threads, randomness, limits, self.now, self.observer)
        self._performer = Performer(*given, PhaseAttempt, recall=self._engine.cached_result)
        self.perform = self._performer.perform
        self.sender = Sender(
            self.loop, self._threads, clock, self.randomness, self.now, self.observer
        )

        self._is_joined = self._is_stopping = self._is_cancelled = False
        self._failure: Exception | None = None
        self._lost_at = 0

    # --- what an execution needs -----------------------------------------------------------------

    def progress(self, execution: HostedRun, value: bytes) -> None:
        """Let others see how far a run is; from any thread."""
        self._progress.put(execution.uid, execution.fence, value)

    def pending_progress(self, uid: str) -> bytes | None:
        """Return progress that is not written yet, to be written with the end of the run."""
        return self._progress.pending(uid)

    def look(self, execution: Execution) -> None:
        """Read a run's inbox again, as it has a number that the run has not seen."""
        self._inbox_reader.read_again(execution)

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that a run has left this worker."""
        current = self.running.get(execution.uid)
        if current is not None:
            report_left(self.observer, execution.scope, execution.move, self.now())
        if current is not execution:  # it came back to us before we heard that it had left
            execution.forget()
            return
        del self.running[execution.uid]
        if end is End.LOST and execution.move is None:
            self.held[execution.uid] = execution.fence
            self._lost_at = self.clock.monotonic()
        if end is End.PARKED and not self._is_stopping:
            self._cache.keep(execution)
        elif end is End.PARKED:
            execution.forget()
        move = execution.move if end is End.OVER else None
        succeeded = move is not None and move.state is RunState.SUCCEEDED
        if not succeeded or self._is_stopping or self.claiming.gains_from(execution.claimed):
            self._engine.wake()

    # --- its runs --------------------------------------------------------------------------------

    async def begin(self, runs: Sequence[ClaimedRun]) -> None:
        """Begin runs that were claimed."""
        await self._beginnings.begin(runs)

    def take_warm(self, runs: Sequence[ClaimedRun]) -> dict[str, Execution]:
        """Return the bodies of these runs that are still in memory."""
        return {run.uid: kept for run in runs if (kept := self._cache.take(run)) is not None}

    def own(self, execution: Execution, run: ClaimedRun) -> None:
        """Take note that a run is this worker's."""
        self.running[execution.uid] = execution
        report_claimed(self.observer, execution.scope, run)

    def read_inboxes(self, news: News) -> None:
        """Let the runs that may have changed read their inboxes."""
        self._inbox_reader.read_all(self.running, news)

    def forget_held(self) -> None:
        """Forget runs that were lost, if the lease was renewed since: it was not lost with them."""
        if self.held and self._renewer.renewed > self._lost_at:
            self.held.clear()

    # --- life ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until `stop()`; then let what is being worked on come to an end, or give it back.

        Raises:
            LeaseLost: another worker has taken over; nothing that this one did since was written.
        """
        failure: Exception | None = None
        try:
            with traceable_interrupts(), contained_tasks(self.loop):
                await self._live()
        except LeaseLost:
            raise
        except Exception as error:
            failure = error
            raise
        finally:
            self.observer.worker_left(self.id, failure)

    async def _live(self) -> None:
        if self._before is None:
            await self._join()
        else:
            await self._outage.through(self._join, alone=True)
        for name, places in self._registry.unclear.items():
            emit("worker.unclear", worker=self.id, workflow=name, places=places)
        spawn = self._ports.spawn
        if spawn is not None:
            self._watch.start(spawn, f"onward-watch-{self.id}")
        try:
            async with contextlib.AsyncExitStack() as stack:
                renewer: Renewer | None = None
                if spawn is None or self._engine.is_private:
                    # A database in memory has no second store, and no other process can claim it.
                    renewer = await stack.enter_async_context(self._engine.renewer())
                else:
                    self._renewer.start(spawn, self._stall_guard)
                self._ready.set()
                named = [name for name in self.names.workflows if not name.startswith("onward.")]
                self.observer.worker_ready(self.id, self._ports.store, self._options.queues, named)
                await self._work_unless_cancelled(renewer)
        finally:
            self._watch.stop()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            self._performer.close()
            await self._leave()

    async def _join(self) -> None:
        names = self._registry.names
        await self._engine.join(self._registration(names), self._lease, self._before)
        self._registered = names
        self._is_joined = True

    def stop(self) -> None:
        """Claim no more and leave."""
        self._is_stopping = True
        if not self._is_joined:
            self._outage.give_up()
        self._engine.wake()

    def _on_drain(self) -> None:
        """Stop because an operator has drained the worker."""
        if not self._is_stopping:
            self.stop()
            self.report_stopping("drain")

    def report_stopping(self, signal: str) -> None:
        """Report that the worker claims no more."""
        emit(
            "worker.stopping",
            worker=self.id,
            signal=signal,
            runs=len(self.running),
            drain_seconds=self._options.drain / SECOND,
        )

    async def _work_unless_cancelled(self, renewer: Renewer | None) -> None:
        """Work; cancelled, finish the claim under way and give everything back at once.

        Ctrl-C, or an error of the code around a worker, is no crash of its runs.
        """
        working = asyncio.ensure_future(self._work(renewer))
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            self._is_cancelled = True
            self.stop()
            await asyncio.wait([working], timeout=self._options.drain / 1_000_000)
            is_ending = working.cancelled()  # the loop ends, and with it every task
            working.cancel()  # if the engine does not answer
            await asyncio.gather(working, return_exceptions=True)
            if is_ending:
                await asyncio.wait_for(self._drain(), self._options.drain / 1_000_000)
            raise

    async def _work(self, renewer: Renewer | None) -> None:
        while not self._is_stopping and self._failure is None:
            self._renewer.loop_ticked()
            try:
                if renewer is not None:
                    await self._renewer.tick(renewer)
                claimed = await self.claiming.tick()
            except AWAY as error:
                self.claiming.audit_soon()
                await self.claiming.wait(self._outage.met(error))
                continue
            self._outage.over()
            if not claimed:
                await self.claiming.idle()
        if self._failure is not None:
            raise self._failure
        await self._drain()

    async def _drain(self) -> None:
        """Let steps that run come to their end for a while, then give back what is left."""
        for execution in self.running.values():
            execution.wind_down()
        end = self.loop.time() + self._options.drain / 1_000_000
        if self._has_steps() and not self._is_cancelled:
            with contextlib.suppress(*AWAY):
                await self._engine.report_draining()
        while self._has_steps() and not self._is_cancelled and self.loop.time() < end:
            self.read_inboxes(await self._engine.wait(end - self.loop.time()))
        for execution in list(self.running.values()):
            execution.release()
        # While the engine is away nothing can be given back: then the lease runs out by itself.
        last = self.loop.call_at(max(end, self.loop.time() + LEAVE_SECONDS), self._outage.give_up)
        await self.engine_calls.close()
        await self._progress.close()
        await self._engine.flush()
        last.cancel()

    def _has_steps(self) -> bool:
        return any(not execution.is_idle for execution in self.running.values())

    async def _leave(self) -> None:
        self._outage.give_up()
        for execution in list(self.running.values()):
            self.held[execution.uid] = execution.fence
            execution.forget()
            report_left(self.observer, execution.scope, None, self.now())
        self.running.clear()
        self._cache.clear()
        self._inbox_reader.stop()
        if self._renewer.has_thread:
            await call_in_thread(self._renewer.stop)
        if not isinstance(self._failure, LeaseLost):
            with contextlib.suppress(OnwardError):  # then the lease runs out by itself
                # What was claimed as we were cut short is no crash.
                await self._engine.leave(releases=self._failure is None)
        self._engine.disconnect()

    def _renewer_failed(self, failure: Exception) -> None:
        self._failure = failure
        self.loop.call_soon_threadsafe(self._engine.wake)

    def lost(self) -> LostWorker:
        """Return what the session that takes its place must know of it."""
        # A run that blocked the loop for too long has lost it the lease: that crash is its own.
        given_up = self._stall_guard.given_up
        return LostWorker(
            self.id, {uid: fence for uid, fence in self.held.items() if uid != given_up}
        )

    # --- a blocked event loop, seen by the thread of the lease ------------------------------------

    def sending(self) -> set[str]:
        """Return the runs for which an effect is being sent."""
        # The loop may run again meanwhile, and free a run.
        bodies = [(uid, getattr(run, "body", None)) for uid, run in list(self.running.items())]
        return {uid for uid, body in bodies if body is not None and is_sending(body)}

    def on_released(self, runs: Mapping[str, int]) -> None:
        """Forget runs that were released while the loop was blocked."""
        self.released = {**self.released, **runs}
        for uid, fence in runs.items():
            execution = self.running.get(uid)
            if execution is not None and execution.fence == fence:
                execution.is_stopped = True  # or its body, which may block as well, would run first
        self.loop.call_soon_threadsafe(self._drop, runs)

    def _drop(self, runs: Mapping[str, int]) -> None:
        for uid, fence in runs.items():
            execution = self.running.get(uid)
            if execution is not None and execution.fence == fence:
                execution.drop()
                self.held.pop(uid, None)
        self.released = {}

    def on_stuck(self, stall: Stall) -> None:
        """Report that the loop has been blocked for too long, and exit if that was asked for."""
        report = partial(
            self.observer.worker_stuck,
            self.id,
            stall.scope,
            stall.length,
            stall.where,
            exits=self.exits_when_stuck,
        )
        if self.exits_when_stuck:
            exit_now(EXIT_STUCK, report)
        report()

    # --- the database's clock --------------------------------------------------------------------

    def _clock_stepped(self, step: Duration) -> None:
        """Report that the database's clock was set, and wait anew for what the runs wait for."""
        if self._engine.has_own_clock:  # or the store reports it, for all workers
            self.observer.clock_stepped(self.id, step)
        for execution in [*self._cache, *self.running.values()]:
            execution.body.clock.clock_stepped(step)
        for execution in self._cache:
            execution.waits.clock_stepped(step)  # the attempts of their steps wait on record
        for execution in list(self.running.values()):
            execution.waits.clock_stepped(step, execution.body.calls.values())
            deadline = execution.claimed.deadline
            if deadline is not None and step > 0:  # as the engine does on record
                execution.claimed = execution.claimed._replace(deadline=deadline + step)
            self.loop.call_soon(execution.pump, context=self.context)

    # --- what others know ------------------------------------------------------------------------

    async def register_names(self) -> tuple[str, ...]:
        """Register again if there are other names to take by now, and return the names."""
        names = self._registry.names
        if self._registered is not names:
            await self._engine.register(self._registration(names))
            self._registered = names
        return names

    def _registration(self, names: tuple[str, ...]) -> Registration:
        options = self._options
        return Registration(
            self.id,
            self._ports.host,
            self._ports.pid,
            options.version,
            options.queues,
            options.tags,
            names,
            self.programs.codes,
            self._registry.limits,
            options.schedules,
            options.slots,
            options.pipelines,
        )
