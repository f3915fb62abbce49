"""The sync client, for code without an event loop.

Every call runs the async method of the same name in an event loop in the background and waits for
it; workflows stay async (ADR 0002). Signatures and docstrings are those of the async methods.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from onward.sdk.app import App
from onward.sdk.background import Background
from onward.sdk.bulk import Bulk
from onward.sdk.cache import Cache
from onward.sdk.dead import Dead
from onward.sdk.effects import Effects
from onward.sdk.pipelines.inputs import Inputs
from onward.sdk.pipelines.pipelines import Pipelines
from onward.sdk.pipelines.topics import Topics
from onward.sdk.queues import Queues
from onward.sdk.run import Run
from onward.sdk.schedules import Schedules
from onward.sdk.workers import Workers
from onward.system.coroutines import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from types import TracebackType

    from onward.core.instant import DurationLike
    from onward.runtime.pipelines.values import Topic
    from onward.runtime.worker.worker import Worker
    from onward.sdk.bulk import BulkAnswer
    from onward.sdk.bulk_workflow import BulkReport
    from onward.sdk.waits import Signal
    from onward.sdk.within import Within
    from onward.sdk.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class _Sync(Generic[T]):
    def __init__(self, target: T, background: Background) -> None:
        self._target = target
        self._background = background
        self._call = background.call


def _sync(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Sync[Any], P], R]:
    @wraps(method)
    def call(self: _Sync[Any], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(method(self._target, *args, **kwargs))

    return call


def _sync_run(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, Run[R]]],
) -> Callable[Concatenate[_Sync[Any], P], SyncRun[R]]:
    @wraps(method)
    def call(self: _Sync[Any], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        return SyncRun(self._call(method(self._target, *args, **kwargs)), self._background)

    return call


def _sync_bulk(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, BulkAnswer[Run[BulkReport]]]],
) -> Callable[Concatenate[_Sync[Any], P], BulkAnswer[SyncRun[BulkReport]]]:
    @wraps(method)
    def call(self: _Sync[Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        answer = self._call(method(self._target, *args, **kwargs))
        run = None if answer.run is None else SyncRun(answer.run, self._background)
        return replace(cast("BulkAnswer[Any]", answer), run=run)

    return call


def _sync_worker(
    method: Callable[Concatenate[Any, P], AbstractAsyncContextManager[Worker]],
) -> Callable[Concatenate[SyncApp, P], AbstractContextManager[SyncWorker]]:
    @wraps(method)
    @contextmanager
    def work(self: SyncApp, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[SyncWorker]:
        entered = method(self._target, *args, **kwargs)
        with self, self._background.hold(entered) as worker:
            yield SyncWorker(worker, self._background)

    return work


class SyncApp(_Sync[App]):
    """An app for code without an event loop; `App.sync` returns it. Open it with `with`.

    Every call blocks until its result is available. Several threads may use the app at the same
    time. In a thread with a running event loop, a call raises `WouldBlock`, because it would block
    that loop.

    Example:
        >>> from onward import App, workflow
        >>> @workflow
        ... async def triple(n: int) -> int:
        ...     return 3 * n
        >>> with App(":memory:").sync() as app, app.worker(workflows=[triple]):
        ...     app.run(triple, 14)
        42
    """

    def __init__(self, app: App) -> None:
        super().__init__(app, Background("a sync App"))
        self._users = 0
        self._opening = threading.Lock()
        self.effects = SyncEffects(app.effects, self._background)
        """The ledger of effects: list effects, and decide on them."""
        self.schedules = SyncSchedules(app.schedules, self._background)
        """Rules that start runs by cron or interval."""
        self.bulk = SyncBulk(app.bulk, self._background)
        """Actions on all runs that match a filter."""
        self.cache = SyncCache(app.cache, self._background)
        """The result cache: list and purge the results of steps that runs share."""
        self.dead = SyncDead(app.dead, self._background)
        """Dead letters: failed and timed-out runs that await a decision."""
        self.workers = SyncWorkers(app.workers, self._background)
        """The workers of this store: list and drain them."""
        self.queues = SyncQueues(app.queues, self._background)
        """Queues, and the limits, rates and pauses of queues, workflows and keys."""
        self.pipelines = SyncPipelines(app.pipelines, self._background)
        """Pipelines: list, run, pause and resume them."""
        self.topics = SyncTopics(app.topics, self._background)
        """Topics of pipelines, and their events."""
        self.inputs = SyncInputs(app.inputs, self._background)
        """Inputs, the external items that entered pipelines: list, explain and skip them."""

    def __enter__(self) -> Self:
        with self._opening:
            if not self._users:
                self._background.start()
                try:
                    self._call(self._target.__aenter__())
                except BaseException:
                    self._background.stop()
                    raise
            self._users += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._opening:
            self._users -= 1
            if not self._users:
                try:
                    self._call(self._target.__aexit__(kind, error, trace))
                finally:
                    self._background.stop()

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """Start a run and return a handle for it; see `App.start`."""
        run = self._call(self._target.start(workflow, *args, **kwargs))
        return SyncRun(run, self._background)

    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run, wait for it and return its result; see `App.run`."""
        return self._call(self._target.run(workflow, *args, **kwargs))

    publish = _sync(App.publish)
    publish_many = _sync(App.publish_many)
    get = _sync_run(App.get)
    runs = _sync(App.runs)
    counts = _sync(App.counts)
    signal = _sync(App.signal)
    cancel = _sync(App.cancel)
    pause = _sync(App.pause)
    resume = _sync(App.resume)
    retry = _sync_run(App.retry)
    fork = _sync_run(App.fork)
    why = _sync(App.why)
    unserved = _sync(App.unserved)
    worker = _sync_worker(App.worker)

    def within(self, connection: object) -> SyncWithin:
        """Return a view of this app that works in your own transaction.

        Args:
            connection: psycopg, SQLAlchemy (a connection or session) or sqlite3.
        """
        within = self._call(self._target.blocking_within(connection))
        return SyncWithin(within, self._background)


class SyncRun(_Sync[Run[R]]):
    """A handle for a run, for code without an event loop; see `Run`.

    Example:
        >>> from onward import App, workflow
        >>> @workflow
        ... async def halve(n: int) -> int:
        ...     return n // 2
        >>> with App(":memory:").sync() as app, app.worker(workflows=[halve]):
        ...     run = app.start(halve.options(id="halve-84"), 84)
        ...     run.result(timeout="10s"), run.state()
        (42, 'succeeded')
    """

    def __init__(self, run: Run[R], background: Background) -> None:
        super().__init__(run, background)
        self.uid = run.uid
        self.id = run.id

    def result(self, *, timeout: DurationLike | None = None, raise_paused: bool = False) -> R:
        """Wait until the run has ended and return its result; see `Run.result`."""
        return self._call(self._target.result(timeout=timeout, raise_paused=raise_paused))

    state = _sync(Run.state)
    info = _sync(Run.info)
    history = _sync(Run.history)
    pending_signals = _sync(Run.pending_signals)
    signal = _sync(Run.signal)
    cancel = _sync(Run.cancel)

    def __repr__(self) -> str:
        return repr(self._target)


class SyncEffects(_Sync[Effects]):
    """The ledger of an app, for code without an event loop; see `Effects`."""

    pending = _sync(Effects.pending)
    all = _sync(Effects.all)
    find = _sync(Effects.find)
    choices = _sync(Effects.choices)
    of = _sync(Effects.of)
    get = _sync(Effects.get)
    resolve = _sync(Effects.resolve)
    approve = _sync(Effects.approve)
    reject = _sync(Effects.reject)


class SyncSchedules(_Sync[Schedules]):
    """The schedules of an app, for code without an event loop; see `Schedules`."""

    create = _sync(Schedules.create)
    declare = _sync(Schedules.declare)
    list = _sync(Schedules.list)
    get = _sync(Schedules.get)
    update = _sync(Schedules.update)
    pause = _sync(Schedules.pause)
    resume = _sync(Schedules.resume)
    trigger = _sync_run(Schedules.trigger)
    backfill = _sync(Schedules.backfill)
    delete = _sync(Schedules.delete)
    preview = _sync(Schedules.preview)
    slots = _sync(Schedules.slots)


class SyncDead(_Sync[Dead]):
    """The dead letters of an app, for code without an event loop; see `Dead`."""

    list = _sync(Dead.list)
    count = _sync(Dead.count)
    groups = _sync(Dead.groups)
    get = _sync(Dead.get)
    replay = _sync_run(Dead.replay)
    discard = _sync(Dead.discard)


class SyncBulk(_Sync[Bulk]):
    """Bulk actions of an app, for code without an event loop; see `Bulk`."""

    retry = _sync_bulk(Bulk.retry)
    fork = _sync_bulk(Bulk.fork)
    discard = _sync_bulk(Bulk.discard)
    cancel = _sync_bulk(Bulk.cancel)
    pause = _sync_bulk(Bulk.pause)
    resume = _sync_bulk(Bulk.resume)


class SyncWorkers(_Sync[Workers]):
    """The workers of a store, for code without an event loop; see `Workers`."""

    list = _sync(Workers.list)
    drain = _sync(Workers.drain)


class SyncQueues(_Sync[Queues]):
    """The queues of an app, for code without an event loop; see `Queues`."""

    list = _sync(Queues.list)
    limit = _sync(Queues.limit)
    weight = _sync(Queues.weight)
    pause = _sync(Queues.pause)
    resume = _sync(Queues.resume)
    clear = _sync(Queues.clear)


class SyncCache(_Sync[Cache]):
    """The result cache of an app, for code without an event loop; see `Cache`."""

    list = _sync(Cache.list)
    purge = _sync(Cache.purge)


class SyncPipelines(_Sync[Pipelines]):
    """The pipelines of an app, for code without an event loop; see `Pipelines`."""

    declare = _sync(Pipelines.declare)
    list = _sync(Pipelines.list)
    get = _sync(Pipelines.get)
    trigger = _sync(Pipelines.trigger)
    pause = _sync(Pipelines.pause)
    resume = _sync(Pipelines.resume)


class SyncTopics(_Sync[Topics]):
    """The topics of an app, for code without an event loop; see `Topics`."""

    list = _sync(Topics.list)
    counts = _sync(Topics.counts)
    peek = _sync(Topics.peek)
    replay = _sync(Topics.replay)
    skip = _sync(Topics.skip)


class SyncInputs(_Sync[Inputs]):
    """The inputs of an app's pipelines, for code without an event loop; see `Inputs`."""

    list = _sync(Inputs.list)
    counts = _sync(Inputs.counts)
    get = _sync(Inputs.get)
    skip = _sync(Inputs.skip)


class SyncWithin:
    """Starts runs, sends signals and publishes events in your own transaction; see `Within`.

    The transaction is used in the thread that calls, and no call waits for the background loop.
    """

    def __init__(self, within: Within, background: Background) -> None:
        self._within = within
        self._background = background

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """Start a run when you commit; return a handle that you can use after the commit."""
        run: Run[R] = drive(self._within.start(workflow, *args, **kwargs))
        return SyncRun(run, self._background)

    def signal(
        self,
        id: str,  # noqa: A002 - it is the user's word
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the newest run with the given id when you commit."""
        drive(self._within.signal(id, signal, value, message_id=message_id))

    def publish(
        self,
        topic: Topic[T] | str,
        payload: T,
        *,
        id: str,  # noqa: A002 - it is the user's word
        key: str | None = None,
    ) -> None:
        """Publish an event when you commit; see `App.publish`."""
        drive(self._within.publish(topic, payload, id=id, key=key))


class SyncWorker:
    """A worker in the background."""

    def __init__(self, worker: Worker, background: Background) -> None:
        self.id = worker.id
        self._worker = worker
        self._call = background.call

    def stop(self) -> None:
        """Stop claiming runs; leaving the `with` block waits for those in progress."""
        self._call(self._stop())

    async def _stop(self) -> None:
        self._worker.stop()
