"""The app: starts, lists and controls runs, and runs workers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from os import PathLike, fspath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from onward.core.retention import read_retention
from onward.engine.starting import check_tags
from onward.runtime.registry import note_start
from onward.runtime.worker.options import Options, Ports
from onward.runtime.worker.worker import Worker
from onward.sdk.bulk import Bulk
from onward.sdk.bulk_workflow import BulkWorkflow
from onward.sdk.cache import Cache
from onward.sdk.connecting import Connecting
from onward.sdk.dead import Dead
from onward.sdk.effects import Effects
from onward.sdk.inside import refuse_in_body
from onward.sdk.pipelines.inputs import Inputs
from onward.sdk.pipelines.pipelines import Pipelines
from onward.sdk.pipelines.process import serve
from onward.sdk.pipelines.publishing import PublishOperations
from onward.sdk.pipelines.topics import Topics
from onward.sdk.queues import Queues
from onward.sdk.run_operations import RunOperations
from onward.sdk.schedule import declared_schedules
from onward.sdk.schedules import Schedules
from onward.sdk.shared_open import Opening
from onward.sdk.within import Within
from onward.sdk.worker_context import at_work, registry_of
from onward.sdk.worker_times import step_limits, worker_times
from onward.sdk.workers import Workers
from onward.sdk.workflow import check_workflow
from onward.system.clock import SystemClock, SystemRandomness, spawn_thread
from onward.telemetry.reporter import Reporter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import TracebackType

    from onward.core.instant import DurationLike
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.core.retention import RetentionLike
    from onward.core.retry import Retry
    from onward.engine.client_engine import ClientEngine
    from onward.engine.within import CallerTransaction
    from onward.model.runs import Started
    from onward.runtime.registry import Registry
    from onward.sdk.pipelines.pipeline import Pipeline
    from onward.sdk.run import Run
    from onward.sdk.schedule import Schedule
    from onward.sdk.sync import SyncApp
    from onward.sdk.workflow import Workflow
    from onward.telemetry import Metrics
    from onward.telemetry.attention import OnAttention

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


NO_WORKER_SECONDS = 5.0
"""How long `run` waits before it checks whether a worker serves the queue."""


class App(RunOperations, PublishOperations):
    """Starts and controls the runs in a database, and runs workers. Open it with `async with`.

    Args:
        url: The address of a database (a file name, `":memory:"` or
            `postgresql://user@host/database`) or of a server in front of one
            (`onward://host:7170`).
        namespace: The tenant. An app sees and changes only the runs of its namespace.
        version: The version of your code, to which runs are pinned.
        key: The API key for an onward:// server; by default, the value of the environment variable
            `ONWARD_KEY`.
        hints: A Redis address (`redis://host:6379/0`) for notifications between processes. No data
            is stored in Redis. While Redis is down, Onward finds changes by polling.
        metrics: Receives counts and durations; see `onward.telemetry.Metrics`.
        on_attention: A function that is called with an `onward.telemetry.Attention` when a run
            needs an operator.
        retention: How long the workers of this app keep runs after they end: one duration for all
            runs, or a duration for each final state, such as `{"succeeded": "1d", "failed": None}`.
            None keeps them forever. By default, runs that succeeded or were cancelled are deleted
            after 7 days, and others after 30 days.
        debug: Whether to raise an error when a workflow body makes a call that is not
            deterministic, such as `random`, `time` or `open()`. The check slows bodies down; use
            it in development and tests.
        debug_allow: Modules that `debug` does not check, including the calls they make.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def double(n: int) -> int:
        ...     return 2 * n
        >>> async def main() -> int:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[double]):
        ...         return await app.run(double, 21)
        >>> asyncio.run(main())
        42
    """

    def __init__(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        url: str | PathLike[str] = "onward.db",
        *,
        namespace: str = "default",
        version: str | None = None,
        key: str | None = None,
        hints: str | None = None,
        metrics: Metrics | None = None,
        on_attention: OnAttention | None = None,
        retention: RetentionLike = MappingProxyType({}),
        debug: bool = False,
        debug_allow: Sequence[str] = (),
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        spawn: Spawn | None = spawn_thread,
    ) -> None:
        self._url = fspath(url) if isinstance(url, PathLike) else url
        self._version = version
        self._clock = clock
        self._randomness = randomness or SystemRandomness()
        self._spawn = spawn
        self._connect = Connecting(
            key, clock, self._randomness, spawn, hints, read_retention(retention)
        )
        self._opened = self._connect(self._url, namespace)
        self._observer = Reporter(
            clock or SystemClock(), spawn, metrics=metrics, on_attention=on_attention
        )
        self.debug = debug
        """Whether the workers that are started from now on check workflow bodies."""
        self._debug_allow = tuple(debug_allow)
        self._opening = Opening()
        self._registries: set[Registry] = set()
        self._make_groups()

    def _set_store(self, url: str | None, namespace: str | None) -> None:
        """Use another store or namespace than the code says; the app must not be open yet."""
        self._url = url or self._url
        self._opened = self._connect(self._url, namespace or self._opened.namespace)
        self._make_groups()

    def _make_groups(self) -> None:
        self.effects = Effects(self._opened)
        """The ledger of effects: those that await a decision, and verdicts."""
        self.schedules = Schedules(self._opened, self._handle)
        """Rules that start runs by cron or interval."""
        self.dead = Dead(self._opened, self.retry)
        """Dead letters: failed and timed-out runs that await a decision."""
        self.bulk = Bulk(self._opened)
        """Actions on all runs that match a filter."""
        self.workers = Workers(self._opened)
        """The workers of this store: what they serve and do, and draining them."""
        self.queues = Queues(self._opened)
        """Queues, and the limits, rates and pauses of queues, workflows and keys."""
        self.cache = Cache(self._opened)
        """Results of steps that runs share."""
        self.pipelines = Pipelines(self._opened)
        """Pipelines: their handlers, and pauses and runs of them."""
        self.topics = Topics(self._opened)
        """Topics of pipelines, and their events."""
        self.inputs = Inputs(self._opened)
        """External things that entered pipelines, and what happened because of them."""

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body(
            "a call to the App", "Put the call in a step; to start a run, use onward.start"
        )
        self._opening.check_loop()
        return self._opened

    @property
    def _store(self) -> Any:
        engine: Any = self._engine  # one of a database
        return engine.store

    @property
    def _is_alone(self) -> bool:
        """Whether no other process can exist: a database in memory and no threads, as in a test."""
        return self._spawn is None and self._opened.is_private

    async def __aenter__(self) -> Self:
        await self._opening.come(self._open)
        return self

    async def _open(self) -> None:
        await self._engine.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._opening.leave(self._close)

    async def _close(self) -> None:
        await self._observer.close()
        await self._engine.__aexit__(None, None, None)

    # --- runs ------------------------------------------------------------------------------------

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Start a run and return a handle for it.

        If you set an id with `workflow.options(id=...)`, starting the workflow again with the same
        id returns the first run.

        Args:
            workflow: The workflow, or what `workflow.options(...)` returns.
            *args: The positional arguments of the workflow.
            **kwargs: The keyword arguments of the workflow.

        Raises:
            Conflict: the id belongs to a run with a different workflow or arguments.
            Unencodable: an argument cannot be stored.
        """
        run, _ = await self._start(workflow, args, kwargs)
        return run

    async def _start(
        self, workflow: Workflow[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Run[R], Started]:
        check_workflow(workflow)
        engine = self._engine
        run = workflow.row(args, kwargs, uid=engine.new_uid(), version=self._version)
        note_start(workflow.definition, self._registries)
        for flow, limits in workflow.flow(args, kwargs).declares.items():
            await self._engine.declare(flow, limits)
        with self._observer.starting(run.name, run.queue) as starting:
            if starting.trace is not None:
                run = run._replace(trace=starting.trace)
            started = await engine.start(run, workflow.start_options.on_conflict)
            run_id = workflow.start_options.id or started.uid
            starting.done(run_id, started.uid, created=started.created)
        return self._new_handle(started.uid, run_id, workflow.definition), started

    async def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run, wait for it and return its result.

        Raises:
            NoWorker: no worker serves the run's queue. The run is kept, and starts once a worker
                serves the queue.
            RunFailed: the run failed; see `Run.result`.
        """
        run = await self.start(workflow, *args, **kwargs)
        result = asyncio.ensure_future(run.result())
        try:
            await asyncio.wait([result], timeout=NO_WORKER_SECONDS)
            if not result.done():
                await self._engine.check_served(run.uid)
            return await result
        finally:
            result.cancel()

    # --- other ways in ---------------------------------------------------------------------------

    def within(self, connection: object) -> Within:
        """Return a view of this app that works in your own transaction.

        Runs that you start, signals that you send and events that you publish through this view are
        committed together with your own changes.

        Args:
            connection: For Postgres, a connection from asyncpg, psycopg (async) or SQLAlchemy
                (async connection or session). For a SQLite file, a connection from sqlite3,
                aiosqlite or SQLAlchemy.

        Raises:
            StoreUnusable: Onward does not support this kind of connection.
        """
        return self._within(self._engine.within(connection))

    async def blocking_within(self, connection: object) -> Within:
        """Return the same for a connection that is not async: then nothing there ever waits."""
        await self._engine.locate()
        return self._within(self._engine.within(connection, waits=False))

    def _within(self, transaction: CallerTransaction) -> Within:
        return Within(
            self._engine,
            transaction,
            self._new_handle,
            self._version,
            self._observer,
            self._registries,
        )

    def sync(self) -> SyncApp:
        """Return a synchronous view of this app; open either the view or the app, not both."""
        from onward.sdk.sync import SyncApp  # it is built from the methods of this class

        return SyncApp(self)

    # --- workers ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def worker(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        *,
        queues: Sequence[str] = ("default",),
        slots: int = 100,
        threads: int = 32,
        tags: Sequence[str] = (),
        warm: int = 1000,
        workflows: Sequence[Workflow[..., Any]] | None = None,
        schedules: Sequence[Schedule] | None = None,
        pipelines: Sequence[Pipeline] | None = None,
        retry: Retry | None = None,
        timeout: DurationLike | None = None,
        lease: DurationLike = "15s",
        drain: DurationLike = "10s",
        stall: DurationLike = "10s",
        stall_limit: DurationLike = "5m",
    ) -> AsyncIterator[Worker]:
        """Run a worker while the body of `async with` runs.

        If the worker fails, the body is cancelled and the `async with` statement raises the error.
        Once the app is open, an unavailable database is not an error: the worker waits until the
        database is available again.

        Args:
            queues: The queues whose runs the worker takes.
            slots: How many runs may execute at the same time; waiting runs do not count.
            threads: How many sync steps may run at the same time.
            tags: The worker takes runs and steps that have one of these tags, or no tags.
            warm: How many waiting runs to keep in memory; the others are replayed when they
                continue.
            workflows: The workflows to execute; by default all workflows of this process, including
                those that are defined later.
            schedules: The schedules to create when the worker starts; by default, those declared
                with `@schedule` for the worker's workflows. Any worker can start the runs of any
                schedule.
            pipelines: The pipelines to declare and serve; by default, all pipelines that are
                defined in this process before the worker starts.
            retry: The retry policy for a step if neither the step nor its workflow sets one.
            timeout: The timeout for steps that do not set their own.
            lease: How long the worker's lease lasts without a renewal; after that, other workers
                take over its runs. On SQLite, other workers notice at once that a process has
                ended.
            drain: How long the worker waits for running steps when it stops.
            stall: When code has blocked the event loop for this long, other workers can continue
                this worker's runs, except the run that is blocking the loop.
            stall_limit: When code has blocked the event loop for this long, the worker gives up the
                blocking run as well. This counts as a crash of the run; a run fails after five
                crashes in a row.

        Raises:
            BadPipeline: the pipelines are not declared correctly; the error lists all problems.
        """
        declared = declared_schedules(schedules, workflows)
        served = serve(pipelines)
        own = BulkWorkflow(self._opened).definition
        registry = registry_of(workflows, own, handlers=served.handlers)
        async with self:
            for each in declared:
                for flow, limits in each.limits.items():
                    await self._engine.declare(flow, limits)
            worker = Worker(
                registry,
                Options(
                    tuple(queues),
                    slots,
                    threads,
                    warm,
                    version=self._version,
                    tags=check_tags(tags),
                    **worker_times(lease=lease, drain=drain, stall=stall, limit=stall_limit),
                    debug_allow=self._debug_allow if self.debug else None,
                    is_alone=self._is_alone,
                    schedules=tuple(each.spec for each in declared),
                    pipelines=served.specs,
                ),
                step_limits(retry, timeout),
                Ports(
                    self._clock or SystemClock(),
                    self._randomness,
                    self._spawn,
                    self._engine.worker,
                    observer=self._observer,
                    store=self._opened.where,
                ),
            )
            if workflows is None:
                self._registries.add(registry)
            try:
                async with at_work(worker):
                    yield worker
            finally:
                self._registries.discard(registry)
