"""The engine of clients that reach the database themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from onward.codec import check_id
from onward.core.run import RunState
from onward.engine import (
    bulk,
    clock,
    dead,
    effects,
    flows,
    following,
    info,
    open_runs,
    report,
    search,
    sending,
    starting,
    workers,
)
from onward.engine.abbreviation import find_effect, find_run
from onward.engine.cache_info import cache_entry
from onward.engine.client_engine import RunKey
from onward.engine.doctor import examine
from onward.engine.effect_info import effect_choices, effect_info, effect_infos
from onward.engine.follow_errors import uid_of
from onward.engine.local_worker import LocalWorker
from onward.engine.pipelines.local import LocalPipelines
from onward.engine.results import Results
from onward.engine.schedules.local import LocalSchedules
from onward.engine.stats import stats
from onward.engine.why import find_blockers, find_pipeline_blockers
from onward.engine.within import CallerTransaction
from onward.errors import BadInput, NotFound, NoWorker
from onward.model.retention import PruneBatch
from onward.store.opening import open_store
from onward.store.runs import cache, ledger, leftovers, retention
from onward.system.clock import SystemClock, SystemRandomness, spawn_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from onward.codec import Payload
    from onward.core.bulk import BulkAction
    from onward.core.effect import Verdict
    from onward.core.flow import FlowId
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.core.retention import Retention
    from onward.engine.client_engine import ClientEngine, Decision, FailurePeriod
    from onward.engine.clock import Reading
    from onward.engine.doctor import Part
    from onward.engine.effect_views import EffectChoice, EffectInfo
    from onward.engine.flows import FlowChange, FlowInfo
    from onward.engine.pipeline_engine import PipelineEngine
    from onward.engine.schedule_engine import ScheduleEngine
    from onward.engine.search import RunPage
    from onward.engine.sending import Cancelling
    from onward.engine.stats import Stats
    from onward.engine.views import (
        Blocker,
        CacheEntry,
        FailureGroup,
        HistoryEvent,
        PendingSignal,
        RunInfo,
        RunReport,
        UnservedRun,
    )
    from onward.engine.worker_engine import WorkerEngine, WorkerHooks
    from onward.engine.workers import WorkerInfo
    from onward.model.bulk import BulkOptions, Refusal, Target
    from onward.model.effects import EffectRow
    from onward.model.flow import DeclaredLimits
    from onward.model.retention import Position
    from onward.model.run_filter import RunQuery
    from onward.model.runs import NewRun, RunEnd, Started
    from onward.store.store import Store


class LocalClient:
    """A `ClientEngine` over a store.

    Args:
        store: Where the runs are; it is opened and closed with this.
        clock: A steady clock.
        open_store: Opens the same store in another event loop, for the leases of workers. None:
            there are no threads.
        keep: How long workers keep ended runs; None deletes none.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        open_store: Callable[[], Store] | None = None,
        keep: Retention | None = None,
    ) -> None:
        self.store = store
        self.namespace = store.namespace
        self.schedules: ScheduleEngine = LocalSchedules(store)
        self.pipelines: PipelineEngine = LocalPipelines(store)
        self._clock = clock
        self._open_store = open_store
        self._keep = keep
        self._results = self._new_results()

    def _new_results(self) -> Results[RunEnd]:
        is_alone = self._open_store is None and self.is_private
        return Results(self.store, self.store.ends, polls=not is_alone)

    @property
    def is_private(self) -> bool:
        return self.store.database.is_private

    @property
    def where(self) -> str:
        return self.store.database.where

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        self._results = self._new_results()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._results.close()
        await self.store.__aexit__(kind, error, trace)

    def worker(self, worker: str, hooks: WorkerHooks) -> WorkerEngine:
        return LocalWorker(self.store, self._clock, self._open_store, worker, hooks, self._keep)

    # --- changing runs ---------------------------------------------------------------------------

    def new_uid(self) -> str:
        return self.store.new_uid()

    async def start(self, run: NewRun, on_conflict: str) -> Started:
        return await starting.start(self.store, run, on_conflict)

    async def declare(self, flow: FlowId, limits: DeclaredLimits) -> None:
        await self.store.declare(flow, limits)

    async def change_flow(self, flow: FlowId, change: FlowChange) -> None:
        await self.store.change_flow(flow, change.of)

    async def list_flows(self) -> list[FlowInfo]:
        return await flows.list_flows(self.store)

    def within(self, connection: object, *, waits: bool = True) -> CallerTransaction:
        return CallerTransaction(self.store, self.store.within(connection, waits=waits))

    async def locate(self) -> None:
        await self.store.locate()

    async def signal(
        self, run: str, name: str, payload: Payload, *, message: str | None = None
    ) -> None:
        await sending.signal(self.store, run, name, payload, message=message)

    async def cancel(
        self, run: str, *, force: bool = False, grace: Duration | None = None
    ) -> Cancelling:
        return await sending.cancel(self.store, run, force=force, grace=grace)

    async def pause(self, run: str) -> bool:
        return await sending.pause(self.store, run)

    async def resume(self, run: str) -> bool:
        return await sending.resume(self.store, run)

    async def retry(self, run: str, *, force: bool = False) -> RunKey:
        row = await self.store.newest(run)
        followed = await following.retry(self.store, row.uid, force=force)
        return RunKey(uid_of(run, followed), run, row.name)

    async def find_call(self, run: str, step: str) -> str:
        uid = (await self.store.newest(run)).uid
        return (await following.find_call(self.store, uid, step)).name

    async def fork(
        self,
        run: str,
        step: str | None,
        *,
        result: bytes | None = None,
        new_id: str | None = None,
        resend: bool = False,
    ) -> RunKey:
        row = await self.store.newest(run)
        if new_id is not None and new_id != run:
            starting.check_run_id(new_id)
        followed = await following.fork(
            self.store, row.uid, step, result=result, id=new_id, resend=resend
        )
        return RunKey(uid_of(run, followed, new_id=new_id), new_id or run, row.name)

    async def act(self, action: BulkAction, target: Target, options: BulkOptions) -> Refusal | None:
        return await bulk.act(self.store, action, target, options)

    async def queue_served(self, wanted: str) -> str:
        served = await self.store.served_queues()
        return wanted if wanted in served or not served else min(served)

    # --- looking at runs -------------------------------------------------------------------------

    async def find(self, given: str, *, changes: bool) -> RunKey:
        row = await find_run(self.store, given, changes=changes)
        return RunKey(row.uid, row.id, row.name)

    async def newest(self, run_id: str) -> RunInfo:
        [found] = await info.infos_of(self.store, [await self.store.newest(run_id)])
        return found

    async def info(self, run_id: str) -> RunInfo:
        return await info.whole_info(self.store, await self.store.newest(run_id))

    async def report(self, uid: str) -> RunReport:
        return await report.report(self.store, await self.store.run(uid))

    async def why(self, run_id: str) -> list[Blocker]:
        try:
            row = await self.store.newest(run_id)
        except NotFound as missing:
            try:
                return await find_pipeline_blockers(self.store, run_id)
            except NotFound:
                raise missing from None
        return await find_blockers(self.store, row)

    async def history(self, run_id: str) -> list[HistoryEvent]:
        return await info.history(self.store, (await self.store.newest(run_id)).uid)

    async def pending_signals(self, run_id: str) -> list[PendingSignal]:
        uid = (await self.store.newest(run_id)).uid
        history = (await self.store.history([uid]))[uid]
        return await report.pending_signals(self.store, uid, history)

    async def list_runs(
        self,
        query: RunQuery,
        page: RunPage,
        attributes: Mapping[str, Sequence[Any]],
        *,
        parent: str | None = None,
        root: str | None = None,
    ) -> list[RunInfo]:
        return await search.list_runs(self.store, query, page, attributes, parent=parent, root=root)

    async def count_children(self, query: RunQuery, maximum: int) -> int:
        return await self.store.count_started_by_runs(query, maximum)

    async def count_runs(self, query: RunQuery, maximum: int) -> int:
        return await self.store.count_runs(query, maximum)

    async def failure_groups(self, period: FailurePeriod) -> list[FailureGroup]:
        return await dead.failure_groups(self.store, period)

    async def discard(self, run: str, decision: Decision) -> bool:
        return await dead.discard(self.store, (await self.store.newest(run)).uid, decision)

    async def now(self) -> Instant:
        return await self.store.now()

    async def counts(self) -> dict[str, int]:
        return await self.store.counts()

    async def unserved(self) -> list[UnservedRun]:
        return await info.unserved(self.store)

    async def check_served(self, uid: str) -> None:
        row = await self.store.run(uid)
        if row.state == RunState.READY and row.queue not in await self.store.served_queues():
            raise NoWorker(row.id, row.queue)

    async def end_of(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        return await self._results.end_of(uid, also_paused=also_paused)

    async def end_now(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        return await self._results.end_now(uid, also_paused=also_paused)

    # --- workers ---------------------------------------------------------------------------------

    async def list_workers(self, *, gone: bool = False) -> list[WorkerInfo]:
        return await workers.list_workers(self.store, gone=gone)

    async def drain_worker(self, worker: str) -> bool:
        return await workers.drain_worker(self.store, worker)

    # --- the store -------------------------------------------------------------------------------

    async def stats(self) -> Stats:
        return await stats(self.store)

    async def examine(self, position: tuple[str, str] | None, *, is_full: bool) -> Part:
        return await examine(self.store, position, is_full=is_full)

    # --- checking a deploy -----------------------------------------------------------------------

    async def begun_runs(self, *, name: str | None, limit: int | None) -> list[str]:
        return await open_runs.begun_runs(self.store, name=name, limit=limit)

    async def open_runs(self, uids: Sequence[str]) -> list[open_runs.OpenRun]:
        return await open_runs.open_runs(self.store, uids)

    async def recorded_arguments(self, uid: str, identity: str) -> Any:
        return await open_runs.recorded_arguments(self.store, uid, identity)

    # --- effects ---------------------------------------------------------------------------------

    async def pending_effects(self, *, limit: int, after: str) -> list[EffectInfo]:
        rows = await ledger.open_effects(self.store, limit=limit, after=after)
        return await effect_infos(self.store, rows)

    async def all_effects(self, *, limit: int, after: str) -> list[EffectInfo]:
        rows = await ledger.all_effects(self.store, limit=limit, after=after)
        return await effect_infos(self.store, rows)

    async def effects_beginning(self, beginning: str, *, limit: int) -> list[EffectInfo]:
        rows = await ledger.effects_beginning(self.store, beginning, limit)
        return await effect_infos(self.store, rows)

    async def effects_of(self, run_id: str) -> list[EffectInfo]:
        uid = (await self.store.newest(run_id)).uid
        return await effect_infos(self.store, await ledger.effects_of(self.store, uid))

    async def find_effect(self, given: str) -> EffectInfo:
        return await effect_info(self.store, await find_effect(self.store, given))

    async def effect(self, key: str) -> EffectInfo:
        return await effect_info(self.store, await self._effect(key))

    async def effect_choices(self, key: str) -> list[EffectChoice]:
        return await effect_choices(self.store, await self._effect(key))

    async def _effect(self, key: str) -> EffectRow:
        row = await ledger.effect(self.store, key)
        if row is None:
            raise NotFound("effect", key, self.namespace)
        return row

    async def resolve(
        self, key: str, verdict: Verdict, decision: Decision, *, result: bytes | None = None
    ) -> EffectInfo:
        row = await effects.resolve(self.store, key, verdict, result=result, **decision._asdict())
        return await effect_info(self.store, row)

    async def approve(self, key: str, decision: Decision, *, yes: bool) -> EffectInfo:
        row = await effects.approve(self.store, key, yes=yes, **decision._asdict())
        return await effect_info(self.store, row)

    # --- the result cache ------------------------------------------------------------------------

    async def list_cache(
        self, *, step: str | None, version: str | None, limit: int, after: str
    ) -> list[CacheEntry]:
        rows = await cache.list_cache(
            self.store, step=step, version=version, limit=limit, after=after
        )
        return [cache_entry(row) for row in rows]

    async def purge_cache(
        self, *, key: str | None = None, step: str | None = None, version: str | None = None
    ) -> int:
        return await cache.purge_cache(self.store, key=key, step=step, version=version)

    # --- the clock -------------------------------------------------------------------------------

    async def read_clock(self) -> Reading:
        return await clock.read_clock(self.store)

    async def reset_clock(self) -> Reading:
        return await clock.reset_clock(self.store)

    async def accept_steps(self) -> Duration:
        return await clock.accept_steps(self.store)

    async def restart_waits(self) -> list[str]:
        return await clock.retime(self.store)

    # --- retention -------------------------------------------------------------------------------

    async def prune(
        self, keep: Retention, position: Position | None, *, dry_run: bool = False
    ) -> PruneBatch:
        batch = await retention.prune(self.store, keep, position, dry_run=dry_run)
        if batch.position is not None:
            return batch
        if dry_run:
            expired = await self.store.snapshot(leftovers.count_leftovers)
        else:
            expired = await leftovers.delete_leftovers(self.store)
        return PruneBatch({**batch.rows, **expired}, None)


def connect(  # noqa: PLR0913 - each is a thing of its own that one may want
    url: str,
    namespace: str = "default",
    *,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    spawn: Spawn | None = spawn_thread,
    hints: str | None = None,
    keep: Retention | None = None,
) -> LocalClient:
    """Return the engine over the database at an address; enter it to open it.

    Args:
        url: A file name, `:memory:`, or `postgresql://…`.
        namespace: The tenant; nothing is read or written outside it.
        clock: Where time is read; on Postgres the database's own clock unless given.
        randomness: Where ids come from.
        spawn: How threads are started; None: there are none.
        hints: The address of a Redis through which processes hint at changes.
        keep: How long workers keep ended runs; None deletes none.

    Raises:
        BadInput: the address of the Redis cannot be understood, or the namespace is none.
        BadStoreUrl: the address cannot be understood.
        StoreUnusable: the driver for it is not installed.
    """
    opened = partial(
        open_store,
        url,
        namespace=_checked(namespace),
        clock=clock,
        randomness=randomness or SystemRandomness(),
        spawn=spawn,
    )
    second = None if spawn is None else opened
    return LocalClient(opened(hints=hints), clock or SystemClock(), second, keep)


def _checked(namespace: str) -> str:
    """Return a namespace that keys of others, such as those of hints, may begin with."""
    if ":" in check_id(namespace, "the namespace"):
        raise BadInput(
            f"namespace {namespace!r}", "contains a colon", "Use another character, such as -"
        )
    return namespace


def _check(engine: LocalClient) -> ClientEngine:
    return engine  # the type checker compares it with the protocol here
