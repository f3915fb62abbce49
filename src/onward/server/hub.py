"""What a server holds for one namespace: its engine, its workers, and their waiting claims."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from onward.core.instant import SECOND
from onward.engine.clock_steps import ClockSteps
from onward.engine.database_time import DatabaseTime
from onward.engine.local_worker import LocalWorker
from onward.engine.maintenance import Maintenance
from onward.engine.results import Results
from onward.engine.retention import Pruner
from onward.engine.schedules.deciding import in_place
from onward.engine.worker_engine import WorkerHooks
from onward.errors import StoreUnusable, Unavailable
from onward.server.claims import ClaimLines
from onward.server.hints import NamespaceHints, WorkerNews
from onward.server.renewals import Renewals
from onward.telemetry.events import emit
from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable
    from types import TracebackType

    from onward.core.access import Principal
    from onward.core.ports import Clock
    from onward.core.retention import Retention
    from onward.engine.local_client import LocalClient
    from onward.engine.schedules.deciding import Offload
    from onward.model.workers import Registration
    from onward.server.session import StreamSession
    from onward.telemetry.observer import Observer

POLL_SECONDS = 1.0
"""How late claims and maintenance may be when hints are lost."""

MIN_DELAY, MAX_DELAY = 0.05, 1.0
"""How many seconds to wait before a batch of commits is sent again."""

_AWAY = (Unavailable, StoreUnusable)

T = TypeVar("T")


class Hub:
    """A namespace on this server. Open it with `async with`.

    Args:
        client: The engine of its clients.
        clock: A steady clock.
        name: The name of this server, in logs and metrics.
        keep: How long ended runs are kept; None deletes none.
        observer: Receives counts and durations.
        offload: Computes outside of the event loop.
    """

    def __init__(
        self,
        client: LocalClient,
        clock: Clock,
        name: str,
        keep: Retention | None = None,
        observer: Observer = SILENT,
        offload: Offload = in_place,
    ) -> None:
        self.client = client
        self.store = client.store
        self.namespace = client.namespace
        self.sessions: dict[str, StreamSession] = {}
        """The connected workers by id."""
        self.has_limited_runs = False
        self.draining: set[str] = set()
        """The workers that must take no more runs."""
        self.renewals = Renewals(self.store)
        self.claims = ClaimLines(self._look_at_due_times)
        self._clock = clock
        self._name = name
        self._keep = keep
        self._observer = observer
        self._time = DatabaseTime(clock, lambda _: None)
        self.clock_steps = ClockSteps(self.store, clock, "", self._wake_claims)
        self._maintenance = Maintenance(
            self.store,
            clock,
            self._time.learn,
            self.clock_steps,
            offload,
            registered=self._registrations,
        )
        self._pruner = Pruner(self.store, clock, keep, partial(observer.runs_deleted, name))
        self.ends = Results(self.store, self.store.end_states)
        """Which runs have ended; the outcomes are read when they can be sent."""
        self._hints: NamespaceHints | None = None
        self._ticked_at = clock.monotonic()
        self._is_due = asyncio.Event()
        """Set when maintenance is due before the next poll, or due times have to be read."""
        self._wants_maintenance = False
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.client)
        try:
            self._time.learn(*await self.clock_steps.join())
        except BaseException:
            await self._stack.aclose()
            raise
        group = self.store.group_commit
        group.on_written, group.through = self._time.learn, self._send
        group.observer = self._observer
        bus = self.store.database.hints
        hints = NamespaceHints(bus, self._on_hints, self._look_at_schedules)
        self._hints = self._stack.enter_context(hints)
        self._stack.push_async_callback(self._pruner.close)
        self._stack.push_async_callback(self.ends.close)
        self._stack.push_async_callback(self._finished)
        self._stack.push_async_callback(self.claims.close)
        task = asyncio.create_task(self._maintain(), name=f"onward hub {self.namespace}")
        self._stack.push_async_callback(_cancelled, task)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing = True
        await self._stack.__aexit__(kind, error, trace)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that is finished before the namespace is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finished(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    # --- workers ---------------------------------------------------------------------------------

    def worker(self, worker: str, host: SessionHost, on_drain: Callable[[], None]) -> LocalWorker:
        """Return the engine of a worker that is connected to this server.

        Its commits wait, in order, while the database is unreachable.
        """
        hooks = WorkerHooks(self._time.learn, observer=self._observer, on_drain=on_drain)
        group = self.store.group_commit
        return LocalWorker(self.store, self._clock, None, worker, hooks, group=group, host=host)

    async def has_joined(self, worker: str, principal: Principal) -> bool:
        """Return whether a worker has joined, here or through another server, with this key."""
        session = self.sessions.get(worker)
        if session is not None:
            return session.principal.key_id == principal.key_id
        return await self.store.key_of_worker(worker) == principal.key_id

    async def _send(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a batch of commits, and repeat it while the database is unreachable."""
        tries = 0
        while True:
            try:
                return await send()
            except _AWAY:
                if self._is_closing:
                    raise
                tries += 1
                await asyncio.sleep(min(MIN_DELAY * 2**tries, MAX_DELAY))

    def news(self, hear: Callable[[str], None]) -> WorkerNews:
        """Return a subscription to hints on the runs of one worker."""
        assert self._hints is not None, "the hub is not open"
        return WorkerNews(self._hints, hear)

    def _registrations(self) -> Iterable[Registration]:
        """Return what the connected workers have registered, each code once."""
        found: dict[object, Registration] = {}
        for session in self.sessions.values():
            one = session.registration
            found.setdefault((one.offer, tuple(sorted(one.codes.items()))), one)
        return found.values()

    # --- claims and maintenance ------------------------------------------------------------------

    def _on_hints(self, subjects: Iterable[str]) -> None:
        self.claims.hint(frozenset(subjects))

    def _wake_claims(self) -> None:
        self.claims.poll(asyncio.get_running_loop().time())

    def _look_at_schedules(self) -> None:
        self._wants_maintenance = True
        self._is_due.set()

    def _look_at_due_times(self) -> None:
        self._is_due.set()

    async def _maintain(self) -> None:
        """Do maintenance once a second, and let claims look when something becomes due."""
        loop = asyncio.get_running_loop()
        next_poll = loop.time()
        due: float | None = None
        while True:
            now = loop.time()
            if now >= next_poll or self._wants_maintenance or (due is not None and now >= due):
                self._wants_maintenance = False
                next_poll = now + POLL_SECONDS
                await self._contained(self._tick)
                self._wake_claims()
            self._is_due.clear()
            due = await self._contained(self._next_due)
            end = next_poll if due is None else min(next_poll, due)
            if end > (now := loop.time()) and not self._is_due.is_set():
                await _wait(self._is_due, end - now)

    async def _tick(self) -> float | None:
        self._ticked_at = self._clock.monotonic()
        self.clock_steps.worker = next(iter(self.sessions), "")
        due = await self._maintenance.tick()
        self.has_limited_runs = self.claims.always_looks = due.limited
        self._pruner.tick()
        if self.sessions:
            draining = await self.store.workers_to_drain()
            for worker in draining - self.draining:
                if worker in self.sessions:
                    self.sessions[worker].drain()
            self.draining = draining
        return None

    async def _next_due(self) -> float | None:
        """Return when something becomes due, by the clock of the loop; None: not soon.

        What has become due since the last tick counts: a timer of the loop may fire a little early,
        so that the thing it was set for was not due yet when it fired, but is now.
        """
        if not self.claims.has_waiting:
            return None
        now = self._time.now()
        at = await self.store.next_due(now - (self._clock.monotonic() - self._ticked_at))
        if at is None or at - now > POLL_SECONDS * SECOND:
            return None
        return asyncio.get_running_loop().time() + max(0, at - self._time.now()) / SECOND

    async def _contained(self, work: Callable[[], Awaitable[float | None]]) -> float | None:
        """Do something that is repeated a second later if it fails."""
        try:
            return await work()
        except _AWAY:
            return None
        except Exception as error:  # noqa: BLE001 - one failure must not end maintenance
            emit("server.failed", server=self._name, where="maintenance", cause=error)
            return None


class SessionHost:
    """What the engine of one worker shares with the others of its namespace."""

    def __init__(self, hub: Hub, key_id: str, hear: Callable[[str], None]) -> None:
        self._hub = hub
        self.key_id = key_id
        self.news = hub.news(hear)

    @property
    def has_limited_runs(self) -> bool:
        return self._hub.has_limited_runs

    @property
    def clock_steps(self) -> ClockSteps:
        return self._hub.clock_steps

    def subscribe(self) -> WorkerNews:
        return self.news


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
