"""What clients ask of an engine: one method for each use case. Everything that crosses is data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from onward.core.instant import Duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from onward.codec import Payload
    from onward.core.bulk import BulkAction
    from onward.core.effect import Verdict
    from onward.core.flow import FlowId
    from onward.core.instant import Instant
    from onward.core.retention import Retention
    from onward.engine.clock import Reading
    from onward.engine.doctor import Part
    from onward.engine.effect_views import EffectChoice, EffectInfo
    from onward.engine.flows import FlowChange, FlowInfo
    from onward.engine.open_runs import OpenRun
    from onward.engine.pipeline_engine import PipelineEngine
    from onward.engine.redaction import PayloadValue
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
    from onward.engine.within import CallerTransaction
    from onward.engine.worker_engine import WorkerEngine, WorkerHooks
    from onward.engine.workers import WorkerInfo
    from onward.model.bulk import BulkOptions, Refusal, Target
    from onward.model.flow import DeclaredLimits
    from onward.model.retention import Position, PruneBatch
    from onward.model.run_filter import RunQuery
    from onward.model.runs import NewRun, RunEnd, Started


class RunKey(NamedTuple):
    """Which run: its uid, its id and the name of its workflow."""

    uid: str
    id: str
    name: str


class Decision(NamedTuple):
    """Who decides about an effect, why, and which version of it they saw."""

    reason: str
    by: str
    version: int | None = None


class FailurePeriod(NamedTuple):
    """Which failures are grouped, and how their timeline is divided."""

    name: str | None = None
    """Only those of this workflow."""
    length: Duration | None = None
    """Only those within so long before now; None: all."""
    parts: int = 24


class ClientEngine(Protocol):
    """An engine as its clients see it. Open it with `async with`.

    A run is named by its id, which stands for the newest run of that id, or by its uid. A call
    raises `NotFound` if there is no such run, and `Unavailable` while the engine cannot be reached.
    """

    namespace: str
    schedules: ScheduleEngine
    pipelines: PipelineEngine

    @property
    def is_private(self) -> bool:
        """Whether only this process can reach the engine."""
        ...

    @property
    def where(self) -> str:
        """The address of the store for messages, without its password."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def worker(self, worker: str, hooks: WorkerHooks) -> WorkerEngine:
        """Return the engine for a worker of this id."""
        ...

    # --- changing runs ---------------------------------------------------------------------------

    def new_uid(self) -> str:
        """Return a new uid, which sorts after all that were made here before."""
        ...

    async def start(self, run: NewRun, on_conflict: str) -> Started:
        """Start a run, or find the one that has its id.

        Raises:
            Conflict: the id belongs to a run that may not stand for this one.
        """
        ...

    async def declare(self, flow: FlowId, limits: DeclaredLimits) -> None:
        """Write the limits that the code declares for a workflow or a key."""
        ...

    async def change_flow(self, flow: FlowId, change: FlowChange) -> None:
        """Change what an operator says of a queue, a workflow or a key."""
        ...

    async def list_flows(self) -> list[FlowInfo]:
        """Return the queues, and the workflows and keys that something was said of."""
        ...

    def within(self, connection: object, *, waits: bool = True) -> CallerTransaction:
        """Return the engine as seen from an open transaction of the caller.

        Args:
            connection: The caller's own.
            waits: Whether the connection may be an async one. If not, `locate` must be called
                first, and nothing here waits for an event loop.
        """
        ...

    async def locate(self) -> None:
        """Learn where the database is, for callers' connections that cannot wait."""
        ...

    async def signal(
        self, run: str, name: str, payload: Payload, *, message: str | None = None
    ) -> None:
        """Send a signal; the same message id is delivered once.

        Raises:
            RunOver: the run has ended.
        """
        ...

    async def cancel(
        self, run: str, *, force: bool = False, grace: Duration | None = None
    ) -> Cancelling:
        """Cancel a run with cleanup, or end it at once."""
        ...

    async def pause(self, run: str) -> bool:
        """Pause a run; return False if it has ended or is being cancelled."""
        ...

    async def resume(self, run: str) -> bool:
        """Resume a run; return False if it has ended."""
        ...

    async def retry(self, run: str, *, force: bool = False) -> RunKey:
        """Run again what failed, in a new run under the same id.

        Raises:
            RunOver: it is still open or succeeded, or another run has taken its place.
            Undone: effects that it made because of the error may have undone what is kept.
        """
        ...

    async def find_call(self, run: str, step: str) -> str:
        """Return the name of a call in a run's history, given its name or identity."""
        ...

    async def fork(
        self,
        run: str,
        step: str | None,
        *,
        result: bytes | None = None,
        new_id: str | None = None,
        resend: bool = False,
    ) -> RunKey:
        """Run again from a call on, which may be given another result.

        Raises:
            Conflict: another run has the new id.
            WouldResend: it would send effects again.
            RunOver: another run has taken its place, or it is running.
        """
        ...

    async def act(self, action: BulkAction, target: Target, options: BulkOptions) -> Refusal | None:
        """Do to one run what a bulk action does to many; return why not, if it is refused.

        It is safe to repeat, also after a crash.
        """
        ...

    async def queue_served(self, wanted: str) -> str:
        """Return this queue or, if no live worker serves it, one that a live worker serves."""
        ...

    # --- looking at runs -------------------------------------------------------------------------

    async def find(self, given: str, *, changes: bool) -> RunKey:
        """Return the run that is meant by an id, a uid, or the beginning of either.

        With `changes`, an id must be whole, and the run must be the newest of its id.

        Raises:
            Unclear: there are several.
        """
        ...

    async def newest(self, run_id: str) -> RunInfo:
        """Return the newest run of an id, as its row has it."""
        ...

    async def info(self, run_id: str) -> RunInfo:
        """Return the newest run of an id with its attributes, progress and error."""
        ...

    async def report(self, uid: str) -> RunReport:
        """Return everything that is known of one run, and what holds it up."""
        ...

    async def why(self, run_id: str) -> list[Blocker]:
        """Return what keeps the newest run of an id, or a pipeline of that name, from running."""
        ...

    async def history(self, run_id: str) -> list[HistoryEvent]:
        """Return what the newest run of an id did, in order."""
        ...

    async def pending_signals(self, run_id: str) -> list[PendingSignal]:
        """Return signals that were sent to a run and that it has not asked for."""
        ...

    async def list_runs(
        self,
        query: RunQuery,
        page: RunPage,
        attributes: Mapping[str, Sequence[PayloadValue]],
        *,
        parent: str | None = None,
        root: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, newest first, by pages."""
        ...

    async def count_children(self, query: RunQuery, maximum: int) -> int:
        """Return how many runs match that other runs have started, counting up to a maximum."""
        ...

    async def count_runs(self, query: RunQuery, maximum: int) -> int:
        """Return how many runs match, counting up to a maximum."""
        ...

    async def failure_groups(self, period: FailurePeriod) -> list[FailureGroup]:
        """Return dead letters by workflow, type of error and failed call, largest group first."""
        ...

    async def discard(self, run: str, decision: Decision) -> bool:
        """Discard a dead letter; return False if the newest run of the id is none."""
        ...

    async def now(self) -> Instant:
        """Return the engine's time."""
        ...

    async def counts(self) -> dict[str, int]:
        """Return how many runs are in each state, counting up to 10,000."""
        ...

    async def unserved(self) -> list[UnservedRun]:
        """Return runs that could continue, but that no live worker can take, and why."""
        ...

    async def check_served(self, uid: str) -> None:
        """Refuse to wait for a run whose queue no worker serves.

        Raises:
            NoWorker: it is ready, and no live worker serves its queue.
        """
        ...

    async def end_of(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        """Wait until a run has ended (or is paused, if asked), and return how."""
        ...

    async def end_now(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        """Return how a run has ended (or that it is paused, if asked).

        Raises:
            TimeoutError: it has not ended.
        """
        ...

    # --- workers ---------------------------------------------------------------------------------

    async def list_workers(self, *, gone: bool = False) -> list[WorkerInfo]:
        """Return workers, newest first; with `gone`, also those that have left."""
        ...

    async def drain_worker(self, worker: str) -> bool:
        """Let a worker take no more runs and leave; return False if it has left already."""
        ...

    # --- the store -------------------------------------------------------------------------------

    async def stats(self) -> Stats:
        """Return how much there is to do."""
        ...

    async def examine(self, position: tuple[str, str] | None, *, is_full: bool) -> Part:
        """Examine a part of the store, its runs and its workers, beginning where the last ended."""
        ...

    # --- checking a deploy -----------------------------------------------------------------------

    async def begun_runs(self, *, name: str | None, limit: int | None) -> list[str]:
        """Return the uids of open runs that have begun, newest first."""
        ...

    async def open_runs(self, uids: Sequence[str]) -> list[OpenRun]:
        """Return those of these runs that are open, with their histories."""
        ...

    async def recorded_arguments(self, uid: str, identity: str) -> Any:
        """Return the arguments of a call in the history of a run; None if they are not stored."""
        ...

    # --- effects ---------------------------------------------------------------------------------

    async def pending_effects(self, *, limit: int, after: str) -> list[EffectInfo]:
        """Return effects that are not settled; `after` is the last id of the page before."""
        ...

    async def all_effects(self, *, limit: int, after: str) -> list[EffectInfo]:
        """Return effects, those of the newest runs first."""
        ...

    async def effects_beginning(self, beginning: str, *, limit: int) -> list[EffectInfo]:
        """Return effects whose ids begin like this."""
        ...

    async def effects_of(self, run_id: str) -> list[EffectInfo]:
        """Return all effects of the newest run of an id."""
        ...

    async def find_effect(self, given: str) -> EffectInfo:
        """Return the effect that is meant by an id, or the beginning of one.

        Raises:
            Unclear: there are several.
        """
        ...

    async def effect(self, key: str) -> EffectInfo:
        """Return one effect."""
        ...

    async def effect_choices(self, key: str) -> list[EffectChoice]:
        """Return the verdicts that are possible for an effect."""
        ...

    async def resolve(
        self, key: str, verdict: Verdict, decision: Decision, *, result: bytes | None = None
    ) -> EffectInfo:
        """Record the verdict on an uncertain effect.

        Raises:
            VerdictRefused: it is settled, has changed since, or it is too early to say.
        """
        ...

    async def approve(self, key: str, decision: Decision, *, yes: bool) -> EffectInfo:
        """Approve or reject a planned effect.

        Raises:
            VerdictRefused: it does not wait for approval, has changed since, or is withdrawn.
        """
        ...

    # --- the result cache ------------------------------------------------------------------------

    async def list_cache(
        self, *, step: str | None, version: str | None, limit: int, after: str
    ) -> list[CacheEntry]:
        """Return cached results, by pages; `after` is the last key of the page before."""
        ...

    async def purge_cache(
        self, *, key: str | None = None, step: str | None = None, version: str | None = None
    ) -> int:
        """Delete cached results that match, and return how many."""
        ...

    # --- the clock -------------------------------------------------------------------------------

    async def read_clock(self) -> Reading:
        """Return the engine's time beside the machine's."""
        ...

    async def reset_clock(self) -> Reading:
        """Set the engine's time to the machine's clock, and return what both were before."""
        ...

    async def accept_steps(self) -> Duration:
        """Let the time count that the clock left out; return by how much waits were longer."""
        ...

    async def restart_waits(self) -> list[str]:
        """Let waits that were set while the time was ahead count from now; return their runs."""
        ...

    # --- retention -------------------------------------------------------------------------------

    async def prune(
        self, keep: Retention, position: Position | None, *, dry_run: bool = False
    ) -> PruneBatch:
        """Do a part of deleting old runs, or count what that would delete.

        Call it until its answer has no position, each time with the position of the answer before.
        The last part is about rows that belong to no run, such as expired results in the cache.
        """
        ...
