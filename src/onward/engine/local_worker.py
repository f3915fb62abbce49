"""The engine of a worker that reaches the database itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.core.run import TERMINAL, RunState
from onward.engine import children, following
from onward.engine.clock_steps import ClockSteps
from onward.engine.loading import load
from onward.engine.maintenance import Maintenance
from onward.engine.owned_runs import OwnedRun, read_owned, with_end_messages
from onward.engine.pipelines.declaring import declare as declare_pipeline
from onward.engine.retention import Pruner
from onward.engine.schedules.deciding import in_place
from onward.engine.schedules.declaring import declare
from onward.engine.store_renewer import StoreRenewer
from onward.errors import LeaseLost, WriteRefused
from onward.model.claims import ClaimNotes
from onward.model.workers import ClaimAnswer, News
from onward.store.hints import ANYTHING, PIPELINES, SCHEDULES, queue_subject, run_subject
from onward.store.pipelines import reading
from onward.store.pipelines.launching import Launcher
from onward.store.pipelines.owned_ends import end_handler
from onward.store.runs import ledger
from onward.store.runs.cache import cached_result
from onward.store.runs.flows import take_turn
from onward.store.runs.owning import dismiss, dismiss_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from onward.core.flow import FlowId
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.core.retention import Retention
    from onward.engine.worker_engine import Renewer, WorkerEngine, WorkerHooks
    from onward.engine.worker_host import RunSubscription, WorkerHost
    from onward.model.claims import Wanted
    from onward.model.commits import Answered, Commit, CommitOutcome
    from onward.model.effects import EffectRow
    from onward.model.flow import DeclaredLimits
    from onward.model.following import Continuation, Followed
    from onward.model.messages import InboxRow
    from onward.model.pipelines import FullTopic, HandlerRow, PeekedEvent
    from onward.model.runs import Move, NewRun, RunEnd, RunOwner, Started
    from onward.model.workers import LoadedRun, LostWorker, Registration
    from onward.store.store import Store
    from onward.store.writing.group_commit import GroupCommit

_RUN = run_subject("")


class LocalWorker:
    """A `WorkerEngine` over a store that is open in this process.

    Args:
        store: Where the runs are.
        clock: A steady clock.
        open_store: Opens the same store in another event loop, for the lease. None: the lease is
            renewed through the first one.
        worker: The id of the worker.
        hooks: What to call in the worker.
        keep: How long ended runs are kept; None deletes none.
        group: The group commit that a server shares between its remote workers, whose hooks are
            the server's. The lease of such a worker is not bound to this process. None: the worker
            is in this process, and has a group commit of its own with its hooks.
        host: The server of such a worker, which does maintenance for all of them.
    """

    def __init__(  # noqa: PLR0913 - what differs between worker processes, servers and simulations
        self,
        store: Store,
        clock: Clock,
        open_store: Callable[[], Store] | None,
        worker: str,
        hooks: WorkerHooks,
        keep: Retention | None = None,
        group: GroupCommit | None = None,
        host: WorkerHost | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._open_store = open_store
        self._worker = worker
        self._on_time, self._on_drain = hooks.on_time, hooks.on_drain
        self._steps = (
            ClockSteps(store, clock, worker, self.wake) if host is None else host.clock_steps
        )
        self._maintenance = Maintenance(
            store,
            clock,
            hooks.on_time,
            self._steps,
            in_place if open_store is None else asyncio.to_thread,
            worker,
            self._registrations,
        )
        self._pruner = Pruner(store, clock, keep, partial(hooks.observer.runs_deleted, worker))
        self._writer = store.writer(worker, group)
        if group is None:
            self._writer.group.on_written = hooks.on_time
            self._writer.group.through = hooks.send
            self._writer.group.observer = hooks.observer
        self._is_remote = group is not None
        self._host = host
        self.joined_at: Instant = 0
        """The database's time while it joined, or came back."""
        self._registration: Registration | None = None
        self._joined: RunSubscription | None = None  # a store has hints once it is open
        self._owned: dict[str, OwnedRun] = {}
        """The runs whose changes are news."""
        self._lookups: set[asyncio.Task[None]] = set()
        """Commits that wait until the parents of their runs are known."""
        self._had_limited_runs = False
        self._launcher = Launcher(store)
        self._handlers: dict[str, str] = {}
        """The handlers of its pipelines, by the names of their runs."""

    @property
    def is_private(self) -> bool:
        return self._store.database.is_private

    @property
    def has_own_clock(self) -> bool:
        return self._store.database.capabilities.clock

    # --- the worker ------------------------------------------------------------------------------

    async def join(
        self, registration: Registration, lease: Duration, before: LostWorker | None = None
    ) -> None:
        if before is not None:
            await self._store.resign(before.worker, before.held)
            await self._store.unregister(before.worker)
        await self._learn_time()
        await self._store.take_lease(self._worker, lease, is_remote=self._is_remote)
        await self.register(registration)
        for flow, limits in registration.limits.items():
            await self._store.declare(flow, limits)
        await self._maintenance.unpark()
        await declare(self._store, registration.schedules)
        if before is None:  # or an old process would undo what a newer one has declared
            for pipeline in registration.pipelines:
                await declare_pipeline(self._store, pipeline)
        await self._maintenance.retry_blocked()
        subjects = {SCHEDULES, *map(queue_subject, registration.queues)}
        if registration.pipelines:
            subjects.add(PIPELINES)
        self._subscribe(subjects)
        # After the worker before was noted as gone: an order for that one is refused since.
        if before is not None and await self._store.take_over_drain(self._worker, before.worker):
            self._on_drain()

    async def reconnect(
        self, registration: Registration, lease: Duration, held: Mapping[str, int]
    ) -> list[str]:
        """Continue with a lease that was taken elsewhere, such as through another server.

        Args:
            registration: What the worker has registered.
            lease: The lease is renewed for so long.
            held: The runs that the worker has, with their fences. Other runs that are assigned to
                it are released.

        Returns:
            Those of `held` that are not the worker's any more.

        Raises:
            LeaseLost: the lease was lost.
        """
        await self._learn_time()
        if await self._store.renew_lease(self._worker, lease) is None:
            raise LeaseLost(self._worker, "the lease of worker")
        self._note(registration)
        self._subscribe(())  # before the runs are read: what changes from now on is news
        lost = await self.resume(held)
        await self._store.audit(self._worker, held)
        return lost

    async def _learn_time(self) -> None:
        asked = self._clock.monotonic()
        if self._host is None:
            self.joined_at, asked = await self._steps.join()
        else:
            self.joined_at = await self._store.now()
        self._on_time(self.joined_at, asked)

    def _subscribe(self, subjects: Iterable[str]) -> None:
        if self._joined is not None:  # it joins again
            self._joined.__exit__(None, None, None)
        given = self._store.subscribe(subjects) if self._host is None else self._host.subscribe()
        self._joined = given.__enter__()

    @property
    def _subscription(self) -> RunSubscription:
        assert self._joined is not None, "the worker has not joined"
        return self._joined

    def _registrations(self) -> tuple[Registration, ...]:
        return () if self._registration is None else (self._registration,)

    def _note(self, registration: Registration) -> None:
        self._registration = registration
        self._handlers = {
            f"{handler.kind} {handler.name}": handler.name
            for pipeline in registration.pipelines
            for handler in pipeline.handlers
        }

    async def register(self, registration: Registration) -> None:
        is_registered = await self._store.register(
            {
                "worker": self._worker,
                "host": registration.host,
                "pid": registration.pid,
                "version": registration.version,
                # No name has a line break in it; some have spaces.
                "queues": "\n".join(registration.queues),
                "tags": "\n".join(registration.tags),
                "names": "\n".join(registration.names),
                "schedules": "\n".join(spec.name for spec in registration.schedules),
                "slots": registration.slots,
                "key_id": "" if self._host is None else self._host.key_id,
            }
        )
        if not is_registered:
            raise WriteRefused(
                "worker", "a worker with another key has joined under this worker's id"
            )
        self._note(registration)

    def renewer(self) -> AbstractAsyncContextManager[Renewer]:
        if self._open_store is None or self.is_private:
            return nullcontext(StoreRenewer(self._store, self._worker))
        return self._second_store(self._open_store)

    @asynccontextmanager
    async def _second_store(self, open_store: Callable[[], Store]) -> AsyncIterator[Renewer]:
        async with open_store() as store:
            yield StoreRenewer(store, self._worker)

    async def wait(self, seconds: float) -> News:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        heard = await self._subscription.wait(seconds)
        if ANYTHING in heard or (not heard and loop.time() >= end):
            return News(everything=True)
        runs = (subject.removeprefix(_RUN) for subject in heard if subject.startswith(_RUN))
        return News(tuple(sorted(runs)))

    def wake(self) -> None:
        if self._joined is not None:
            self._joined.wake()

    async def next_due(self, since: Instant) -> Instant | None:
        return await self._store.next_due(since)

    async def maintain(self) -> bool:
        due = await self._maintenance.tick()
        self._had_limited_runs = due.limited
        if due.draining:
            self._on_drain()
        self._pruner.tick()
        return due.limited

    @property
    def _has_limited_runs(self) -> bool:
        return self._had_limited_runs if self._host is None else self._host.has_limited_runs

    async def report_draining(self) -> None:
        await self._store.drain_worker(self._worker)

    async def flush(self) -> None:
        await self._pruner.close()
        if self._lookups:
            await asyncio.wait(self._lookups)
        await self._writer.close()

    async def leave(self, *, releases: bool) -> None:
        if releases:
            await self._store.audit(self._worker, ())
        await self._store.drop_lease(self._worker)
        await self._store.unregister(self._worker)

    def disconnect(self) -> None:
        if self._joined is not None:
            self._joined.__exit__(None, None, None)
        self._store.part(self._worker)

    # --- its runs --------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        handlers = [self._handlers[name] for name in wanted.names if name in self._handlers]
        launched = await self._launcher.launch(handlers, wanted.queues, wanted.limit)
        # A run may change after the claim and before its answer says that the run is ours.
        others = self._subscription.others = set()
        begun = self._clock.monotonic()
        notes = ClaimNotes()
        try:
            runs = await self._store.claim(
                replace(wanted, limited=self._has_limited_runs, latest=self._steps.latest()), notes
            )
        finally:
            self._subscription.others = None
        may_be_more = notes.is_cut or len(runs) >= wanted.limit
        # Some may be left for others, whose claims have passed by what this one had locked.
        if notes.is_cut or (launched and may_be_more):
            self._store.database.publish(map(queue_subject, wanted.queues))
        for run in runs:
            self._owned[run.uid] = OwnedRun(run.fence, run.parent, run.parent_identity)
            self._subscription.add(run_subject(run.uid))
        if runs:
            self._on_time(runs[0].claimed_at, begun)
            await self._steps.learn(runs[0].claimed_at, begun)
        is_any = ANYTHING in others  # such as after another process has written the file
        changed = (run.uid for run in runs if is_any or run_subject(run.uid) in others)
        return ClaimAnswer(
            runs, frozenset(changed if others else ()), notes.was_repeated, may_be_more
        )

    async def load(
        self, histories: Collection[str], inboxes: Mapping[str, int | None]
    ) -> dict[str, LoadedRun]:
        if self._host is None or not histories:
            return await load(self._store, histories, inboxes)
        # A remote worker may have waited for long since its claim. If the clock was set meanwhile,
        # it must know that before it reads due times that include the step: it would add it again.
        while True:
            asked = self._clock.monotonic()
            at = await self._store.now()
            self._on_time(at, asked)
            if not await self._steps.learn(at, asked):
                break
        loaded = await load(self._store, histories, inboxes)
        return {run: each._replace(read_at=at) for run, each in loaded.items()}

    async def messages(self, run: str, seqs: Collection[int]) -> list[InboxRow]:
        return await self._store.messages(run, seqs)

    async def count_messages(self, run: str) -> int:
        return (await self._store.run(run)).inbox

    async def owned(self) -> dict[str, int]:
        return await self._store.owned(self._worker)

    async def audit(self, known: Collection[str]) -> list[str]:
        for run in [run for run in self._owned if run not in known]:
            self._disown(run, self._owned[run].fence)
        return await self._store.audit(self._worker, known)

    async def give_up(self, by: RunOwner, name: str, move: Move) -> bool:
        code = None if self._registration is None else self._registration.codes.get(name)
        is_given_up = await self._store.give_up(by, move, code)
        self._disown(by.run, by.fence)
        return is_given_up

    async def resume(self, held: Mapping[str, int]) -> list[str]:
        """Take over the runs of a worker that comes back, by uid and fence; return the lost ones.

        The worker may have had them from another process. It joins first, and looks at all of its
        runs afterwards, because there was no news of them meanwhile.
        """
        found = await read_owned(self._store, self._worker, held)
        lost = []
        for uid, fence in held.items():
            if uid in found and found[uid].fence == fence:
                self._owned[uid] = found[uid]
                self._subscription.add(run_subject(uid))
                continue
            lost.append(uid)
        return lost

    def submit(self, commit: Commit, then: Answered) -> None:
        move = commit.move
        if move is not None and move.state != RunState.RUNNING:
            then = partial(self._moved, commit.run, commit.fence, then)
            if move.state in TERMINAL:
                self._submit_end(commit, move, then)
                return
        self._writer.submit(commit, then)

    def _submit_end(self, commit: Commit, move: Move, then: Answered) -> None:
        """Write the end of a run, and send it to its parent in the same commit."""
        run = self._owned.get(commit.run)
        if run is not None and run.fence == commit.fence:
            self._writer.submit(with_end_messages(commit, run, move), then)
            return
        # Nothing of the run follows this commit, so it may be submitted later.
        lookup = asyncio.ensure_future(self._look_up(commit, move, then))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._lookups.discard)

    async def _look_up(self, commit: Commit, move: Move, then: Answered) -> None:
        """Write the end of a run that this process does not know, such as after a restart."""
        try:
            found = await read_owned(self._store, self._worker, [commit.run])
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the caller gets it
            then(error)
            return
        # Of a run that is not the worker's, nothing is written: it is lost, or it has ended so.
        run = found.get(commit.run, OwnedRun(commit.fence))
        self._writer.submit(with_end_messages(commit, run, move), then)

    def _moved(
        self, run: str, fence: int, then: Answered, answer: CommitOutcome | BaseException
    ) -> None:
        if not isinstance(answer, BaseException) and answer.fate is not Fate.BUSY:
            self._disown(run, fence)
        then(answer)

    def _disown(self, run: str, fence: int) -> None:
        """Have no more news of a run, unless it was claimed again since."""
        owned = self._owned.get(run)
        if owned is not None and owned.fence == fence:
            del self._owned[run]
            self._subscription.discard(run_subject(run))

    async def keep_progress(self, run: str, fence: int, value: bytes) -> None:
        await self._store.keep_progress(self._worker, run, fence, value)

    async def retry(
        self, by: RunOwner, end: Move, delay: Duration, within: Duration | None
    ) -> Followed:
        return self._followed(by, await following.retry_within(self._store, by, end, delay, within))

    async def continue_run(self, by: RunOwner, end: Move, given: Continuation) -> Followed:
        return self._followed(by, await following.continue_run(self._store, by, end, given))

    def _followed(self, by: RunOwner, followed: Followed) -> Followed:
        if followed.fate == "made":
            self._disown(by.run, by.fence)
        return followed

    # --- what they ask for -----------------------------------------------------------------------

    async def start(self, by: RunOwner, run: NewRun, on_conflict: str | None) -> Started | None:
        if on_conflict is None:
            return await children.start_child(self._store, by, run)
        return await children.start_beside(self._store, by, run, on_conflict)

    async def end_of(self, run: str, *, exact: bool = False) -> RunEnd | None:
        if not exact:
            return await children.end_of(self._store, run)
        end = await self._store.end(run)
        return end if end.state in TERMINAL else None

    async def dismiss(
        self, by: RunOwner, children: Collection[str], *, all_bound: bool = False
    ) -> None:
        await (dismiss_all if all_bound else dismiss)(self._store, by, list(children))

    async def declare(self, by: RunOwner, flow: FlowId, limits: DeclaredLimits) -> None:
        await self._store.declare(flow, limits, by)

    async def reserve_rate(self, by: RunOwner, name: str, interval: Duration) -> Duration:
        return await self._store.write(lambda tx: take_turn(tx, by, name, interval))

    async def cached_result(self, key: str) -> bytes | None:
        return await cached_result(self._store, key)

    async def effect(self, key: str) -> EffectRow | None:
        return await ledger.effect(self._store, key)

    # --- runs of pipelines -----------------------------------------------------------------------

    async def handler(self, handler: str, key: str) -> HandlerRow:
        return await self._store.read(lambda tx: reading.handler_row(tx, handler, key))

    async def peek(self, handler: str, key: str, topic: str, limit: int) -> list[PeekedEvent]:
        return await self._store.read(lambda tx: reading.peek(tx, handler, key, topic, limit))

    async def peek_ids(
        self, handler: str, key: str, topic: str, ids: Collection[str]
    ) -> list[PeekedEvent]:
        return await self._store.read(lambda tx: reading.peek_ids(tx, handler, key, topic, ids))

    async def full_topics(self, topics: Collection[str]) -> list[FullTopic]:
        return await self._store.read(lambda tx: reading.full_topics(tx, topics))

    async def end_handler(
        self, by: RunOwner, end: Move, code: str, retry_in: Duration | None
    ) -> Followed:
        followed = await end_handler(self._store, by, end, code, retry_in)
        if followed.fate != "busy":
            self._disown(by.run, by.fence)
        return followed

    async def withdraw_effects(self, by: RunOwner) -> None:
        await self._store.write(lambda tx: ledger.withdraw_own(tx, by))


def _check(engine: LocalWorker) -> WorkerEngine:
    return engine  # the type checker compares it with the protocol here
