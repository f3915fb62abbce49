"""Periodic work that any process with a database may do, for all runs of a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import AUDIT_EVERY
from onward.engine.schedules.deciding import SlotDecisions, in_place
from onward.store.pipelines.freeing import retry_blocked
from onward.store.pipelines.sweeping import sweep_unpublished
from onward.store.runs.cache import purge_expired
from onward.store.runs.flows import forget_idle_keys, has_idle_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.engine.clock_steps import ClockSteps
    from onward.engine.schedules.deciding import Offload
    from onward.model.maintenance import MaintenanceDue
    from onward.model.workers import Registration
    from onward.store.store import Store


class Maintenance:
    """Delivers messages, ends overdue runs, starts scheduled ones, unparks runs, removes workers.

    Call `tick()` about once a second. Any number of processes may do so at a time.

    Args:
        store: Where the runs are.
        clock: Tells when the rarer work is due.
        on_time: Called with the database's time, and when it was asked for.
        steps: Watches the database's clock, if a worker does this.
        offload: Computes outside of the event loop.
        worker: The id of that worker.
        registered: Returns the workers whose code may fit runs that other code has parked.
    """

    def __init__(  # noqa: PLR0913 - each is a thing of its own
        self,
        store: Store,
        clock: Clock,
        on_time: Callable[[Instant, int], None] = lambda _, __: None,
        steps: ClockSteps | None = None,
        offload: Offload = in_place,
        worker: str = "",
        registered: Callable[[], Iterable[Registration]] = tuple,
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_time = on_time
        self._steps = steps
        self._slots = SlotDecisions(store, offload)
        self._worker = worker
        self._registered = registered
        self._next_cleanup = clock.monotonic() + AUDIT_EVERY

    async def tick(self) -> MaintenanceDue:
        """Do what is due, and return what there was to do."""
        asked = self._clock.monotonic()
        due = await self._store.maintenance_due(self._worker)
        self._on_time(due.at, asked)
        if self._steps is not None and await self._steps.learn(due.at, asked, due.latest_step):
            due = await self._store.maintenance_due(self._worker)  # what looked overdue may not be
        if due.outbox:
            await self._store.sweep()
            await sweep_unpublished(self._store)
        if due.overdue:
            await self._store.overdue()
        if due.schedules:
            await self._slots.tick()
        if asked >= self._next_cleanup:
            await self.unpark()
            await self.retry_blocked()
            await self._store.remove_workers()
            await purge_expired(self._store)
            if await self._store.read(has_idle_keys):
                await self._store.write(forget_idle_keys)
            self._next_cleanup = asked + AUDIT_EVERY
        return due

    async def unpark(self) -> None:
        """Let runs continue that other code has parked and that the code here may fit."""
        for code in self._registered():
            await self._store.unpark(code.codes, code.offer)

    async def retry_blocked(self) -> None:
        """Retry runs that block handlers of pipelines whose code has changed since."""
        for code in self._registered():
            await retry_blocked(self._store, code.codes)
