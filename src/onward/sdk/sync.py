"""The sync face of an app, for code without an event loop.

Everything is the async App's, done in a loop in the background; workflows stay async (ADR 0002).
Each method here mirrors the one of its name there.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar

from onward.sdk.background import Background
from onward.sdk.run import UNCHANGED
from onward.sdk.sync_effects import SyncEffects
from onward.store.sqlite.threads import drive

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence
    from types import TracebackType

    from onward.core.instant import DurationLike
    from onward.core.retry import Retry
    from onward.engine.sending import Cancelling
    from onward.model.records import RecordRow
    from onward.model.worker_offer import Unserved
    from onward.runtime.worker.supervisor import Supervisor
    from onward.sdk.app import App
    from onward.sdk.run import Run, RunInfo
    from onward.sdk.waits import Signal
    from onward.sdk.within import Within
    from onward.sdk.workflow import Workflow

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class SyncApp:
    """An app for code without an event loop; `App.sync` makes it. Open it with `with`.

    Every call waits for its answer. Several threads may use it at a time. A thread whose event loop
    runs may not: the call would stop that loop, and is refused.

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
        self._app = app
        self._background = Background("a sync App")
        self._call = self._background.call
        self._users = 0
        self._opening = threading.Lock()
        self.effects = SyncEffects(app.effects, self._background)
        """The ledger of effects: what waits for somebody, and verdicts."""

    def __enter__(self) -> Self:
        with self._opening:
            if not self._users:
                self._background.start()
                try:
                    self._call(self._app.__aenter__())
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
                    self._call(self._app.__aexit__(kind, error, trace))
                finally:
                    self._background.stop()

    # --- runs ------------------------------------------------------------------------------------

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """Start a run and return a handle on it."""
        return self._handle(self._call(self._app.start(workflow, *args, **kwargs)))

    def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run, wait for it and return its result."""
        return self._call(self._app.run(workflow, *args, **kwargs))

    def get(self, id: str) -> SyncRun[Any]:  # noqa: A002 - it is the user's word
        """Return a handle on the newest run of an id."""
        return self._handle(self._call(self._app.get(id)))

    def runs(  # noqa: PLR0913 - each narrows the list in a way of its own
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        parent: str | None = None,
        root: str | None = None,
        children: bool = True,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, newest first, by pages; see `App.runs`."""
        return self._call(
            self._app.runs(
                name=name,
                state=state,
                queue=queue,
                kind=kind,
                tag=tag,
                attributes=attributes,
                parent=parent,
                root=root,
                children=children,
                limit=limit,
                before=before,
            )
        )

    def counts(self) -> dict[str, int]:
        """Return how many runs are in each state."""
        return self._call(self._app.counts())

    def signal(
        self,
        id: str,  # noqa: A002 - it is the user's word
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the newest run of an id."""
        self._call(self._app.signal(id, signal, value, message_id=message_id))

    def cancel(
        self,
        id: str,  # noqa: A002 - it is the user's word
        *,
        force: bool = False,
        grace: DurationLike | None = None,
    ) -> Cancelling:
        """Ask the newest run of an id to stop, or end it at once."""
        return self._call(self._app.cancel(id, force=force, grace=grace))

    def pause(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Let the newest run of an id begin nothing new."""
        return self._call(self._app.pause(id))

    def resume(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Let a paused run go on."""
        return self._call(self._app.resume(id))

    def retry(self, id: str, *, force: bool = False) -> SyncRun[Any]:  # noqa: A002 - the user's word
        """Run again what failed."""
        return self._handle(self._call(self._app.retry(id, force=force)))

    def fork(
        self,
        id: str,  # noqa: A002 - it is the user's word
        step: str | None = None,
        *,
        result: Any = UNCHANGED,
        new_id: str | None = None,
        resend: bool = False,
    ) -> SyncRun[Any]:
        """Run again from a step on."""
        forked = self._app.fork(id, step, result=result, new_id=new_id, resend=resend)
        return self._handle(self._call(forked))

    def unserved(self) -> list[Unserved]:
        """Return runs that could go on, but that no live worker can take, and why."""
        return self._call(self._app.unserved())

    def within(self, connection: object) -> SyncWithin:
        """Return this app as seen from an open transaction of your own.

        Args:
            connection: psycopg, SQLAlchemy (a connection or session) or sqlite3.
        """
        return SyncWithin(self._call(self._app.blocking_within(connection)), self._background)

    # --- workers ---------------------------------------------------------------------------------

    @contextmanager
    def worker(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        *,
        queues: Sequence[str] = ("default",),
        slots: int = 100,
        threads: int = 32,
        tags: Sequence[str] = (),
        warm: int = 1000,
        workflows: Sequence[Workflow[..., Any]] | None = None,
        retry: Retry | None = None,
        timeout: DurationLike | None = None,
    ) -> Iterator[SyncWorker]:
        """Work on runs, in the background, while the body of `with` runs; see `App.worker`."""
        entered = self._app.worker(
            queues=queues,
            slots=slots,
            threads=threads,
            tags=tags,
            warm=warm,
            workflows=workflows,
            retry=retry,
            timeout=timeout,
        )
        with self, self._background.hold(entered) as worker:
            yield SyncWorker(worker, self._background)

    def _handle(self, run: Run[R]) -> SyncRun[R]:
        return SyncRun(run, self._background)


class SyncRun(Generic[R]):
    """A handle on one run, for code without an event loop; see `Run`.

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
        self.uid = run.uid
        self.id = run.id
        self._run = run
        self._background = background
        self._call = background.call

    def result(self, *, timeout: DurationLike | None = None, raise_paused: bool = False) -> R:
        """Wait until the run is over and return its result."""
        return self._call(self._run.result(timeout=timeout, raise_paused=raise_paused))

    def state(self) -> str:
        """Return the state: ready, running, waiting, paused, succeeded, failed and so on."""
        return self._call(self._run.state())

    def info(self) -> RunInfo:
        """Return all that is known of the run, without its data."""
        return self._call(self._run.info())

    def history(self) -> list[RecordRow]:
        """Return what the run did, in order."""
        return self._call(self._run.history())

    def signal(
        self,
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the run; it is kept until the run asks for it."""
        self._call(self._run.signal(signal, value, message_id=message_id))

    def cancel(self, *, force: bool = False, grace: DurationLike | None = None) -> Cancelling:
        """Ask the run to stop, with cleanup, or end it at once."""
        return self._call(self._run.cancel(force=force, grace=grace))

    def __repr__(self) -> str:
        return repr(self._run)


class SyncWithin:
    """A sync app, seen from an open transaction of your own; see `Within`.

    The transaction is used in the thread that calls, and nothing here waits for the background.
    """

    def __init__(self, within: Within, background: Background) -> None:
        self._within = within
        self._background = background

    def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> SyncRun[R]:
        """Start a run with your commit and return a handle on it, which is of use after that."""
        run = self._drive(self._within.start(workflow, *args, **kwargs))
        return SyncRun(run, self._background)

    def signal(self, id: str, signal: Signal[Any] | str, value: Any = None) -> None:  # noqa: A002
        """Send a signal to the newest run of an id, with your commit."""
        self._drive(self._within.signal(id, signal, value))

    def _drive(self, work: Coroutine[Any, Any, T]) -> T:
        result: T = drive(work)
        return result


class SyncWorker:
    """A worker in the background."""

    def __init__(self, worker: Supervisor, background: Background) -> None:
        self.id = worker.id
        self._worker = worker
        self._call = background.call

    def stop(self) -> None:
        """Claim no more; leaving the `with` waits for what is being worked on."""
        self._call(self._stop())

    async def _stop(self) -> None:
        self._worker.stop()
