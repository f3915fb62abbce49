"""The app: where runs are started and looked at, and where workers come from."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from onward.codec import encode
from onward.engine import sending
from onward.engine.results import Results
from onward.engine.starting import start
from onward.errors import NoWorker
from onward.runtime.definition import Limits, Registry
from onward.runtime.worker import Options, Ports, Worker
from onward.sdk.run import Run, RunInfo, info_of
from onward.sdk.waits import Signal
from onward.sdk.workflow import registered
from onward.store.clock import SystemChance, SystemClock, spawn_thread
from onward.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from types import TracebackType

    from onward.core.ports import Chance, Clock, Spawn
    from onward.sdk.workflow import Workflow
    from onward.store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

NOBODY_SECONDS = 5.0


class App:
    """A store of runs, and what can be done with it. Open it with `async with`.

    Args:
        url: A file name, or `postgresql://…`.
        namespace: The tenant; nothing is seen or done outside it.
        version: The version of your code, if runs are to be pinned to it.

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

    def __init__(
        self,
        url: str = "onward.db",
        *,
        namespace: str = "default",
        version: str | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        spawn: Spawn | None = spawn_thread,
    ) -> None:
        self._url = url
        self._namespace = namespace
        self._version = version
        self._clock = clock
        self._chance = chance or SystemChance()
        self._spawn = spawn
        self._store = self._open_store()
        self._users = 0

    def _open_store(self) -> Store:
        return open_store(
            self._url,
            namespace=self._namespace,
            clock=self._clock,
            chance=self._chance,
            spawn=self._spawn,
        )

    async def __aenter__(self) -> Self:
        if not self._users:
            await self._store.__aenter__()
            self._results = Results(self._store)
        self._users += 1
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._users -= 1
        if not self._users:
            await self._results.close()
            await self._store.__aexit__(kind, error, trace)

    # --- runs ------------------------------------------------------------------------------------

    async def start(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Start a run and return a handle on it. With an id, starting twice starts once.

        Raises:
            Conflict: the id belongs to a run that was started with something else.
            Unencodable: an argument cannot be stored.
        """
        definition = workflow.definition
        arguments = definition.shape.bind(args, kwargs)
        options = workflow.start_options
        started = await start(self._store, definition.name, arguments, options)
        run_id = options.id or started.uid
        return Run(started.uid, run_id, self._store, self._results, definition)

    async def run(self, workflow: Workflow[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Start a run, wait for it and return its result.

        Raises:
            NoWorker: nobody serves the run's queue; the run stays, and waits.
        """
        run = await self.start(workflow, *args, **kwargs)
        result = asyncio.ensure_future(run.result())
        try:
            await asyncio.wait([result], timeout=NOBODY_SECONDS)
            if not result.done():
                await self._check_served(run.uid)
            return await result
        finally:
            result.cancel()

    async def _check_served(self, uid: str) -> None:
        row = await self._store.run(uid)
        if row.state == "ready" and row.queue not in await self._store.served_queues():
            raise NoWorker(row.id, row.queue)

    async def get(self, id: str) -> Run[Any]:  # noqa: A002 - it is the user's word
        """Return a handle on the newest run of an id.

        Raises:
            NotFound: there is none.
        """
        row = await self._store.newest(id)
        known = registered.get(row.name)
        return Run(row.uid, row.id, self._store, self._results, known[-1] if known else None)

    async def runs(
        self,
        *,
        name: str | None = None,
        state: str | None = None,
        queue: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunInfo]:
        """Return runs, newest first; `before` is the uid of the last one of the page before."""
        rows = await self._store.list_runs(
            name=name, state=state, queue=queue, limit=limit, before=before
        )
        return [info_of(row) for row in rows]

    async def counts(self) -> dict[str, int]:
        """Return how many runs are in each state."""
        return await self._store.counts()

    async def signal(self, id: str, signal: Signal[Any] | str, value: Any = None) -> None:  # noqa: A002
        """Send a signal to the newest run of an id.

        Raises:
            NotFound: there is none.
        """
        wanted = signal if isinstance(signal, Signal) else Signal(signal)
        payload = encode(value, path=f"signal {wanted.name}", annotation=wanted.type)
        await sending.signal(self._store, id, wanted.name, payload)

    async def cancel(self, id: str) -> bool:  # noqa: A002 - it is the user's word
        """Ask the newest run of an id to stop; False means that it was over already."""
        return await sending.cancel(self._store, id)

    # --- workers ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def worker(
        self,
        *,
        queues: Sequence[str] = ("default",),
        slots: int = 100,
        threads: int = 32,
        workflows: Sequence[Workflow[..., Any]] | None = None,
    ) -> AsyncIterator[Worker]:
        """Work on runs while the body of `async with` runs.

        A worker that fails ends the body, and its error is raised here.

        Args:
            queues: Whose runs to take.
            slots: How many runs may be in motion at a time; waiting ones do not count.
            threads: How many steps that are not async may run at a time.
            workflows: What to run; by default every workflow that was defined.
        """
        definitions = (
            [known for same_name in registered.values() for known in same_name]
            if workflows is None
            else [workflow.definition for workflow in workflows]
        )
        async with self:
            worker = Worker(
                self._store,
                Registry(definitions),
                Options(tuple(queues), slots, threads, version=self._version),
                Limits(),
                Ports(self._clock or SystemClock(), self._chance, self._spawn, self._open_store),
            )
            failure: BaseException | None = None
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(worker.run(), name=f"onward worker {worker.id}")
                    await worker.ready.wait()
                    try:
                        yield worker
                    finally:
                        worker.stop()
            except BaseExceptionGroup as failed:
                failure = failed.exceptions[0]
            if failure is not None:
                raise failure  # not while the group is handled: that would hide its own cause
