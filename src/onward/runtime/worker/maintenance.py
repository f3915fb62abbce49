"""What a worker does beside working on its runs: for all workers, and for what nobody can run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import AUDIT_EVERY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.ports import Clock
    from onward.model.worker_offer import WorkerOffer
    from onward.runtime.execution.execution import Execution
    from onward.runtime.worker.database_time import DatabaseTime
    from onward.runtime.worker.programs import Programs
    from onward.store.store import Store


class Chores:
    """The chores of one worker."""

    def __init__(
        self, store: Store, worker: str, clock: Clock, time: DatabaseTime, programs: Programs
    ) -> None:
        self._store = store
        self._worker = worker
        self._clock = clock
        self._time = time
        self._programs = programs
        self._done = 0
        self._next_audit = clock.monotonic() + AUDIT_EVERY
        self.serves: WorkerOffer
        """What the worker takes."""
        self.limited = False
        """Whether there are runs under a limit that could be claimed."""

    @property
    def are_due(self) -> bool:
        """Say whether they were last done a while ago."""
        return self._clock.monotonic() - self._done >= SECOND

    async def declare(self, limits: Mapping[str, int]) -> None:
        """Say what limits our steps have, and try again what did not fit other code than ours."""
        for key, most in limits.items():
            await self._store.set_limit(key, most)
        await self._unpark()

    async def do(self) -> None:
        """Do what any worker may do for all, and see whether there are runs under a limit."""
        self._done = asked = self._clock.monotonic()
        chores = await self._store.chores()
        self._time.learn(chores.at, asked)
        if chores.outbox:
            await self._store.sweep()
        if chores.overdue:
            await self._store.overdue()
        self.limited = chores.limited

    async def audit(self, running: Mapping[str, Execution]) -> None:
        """Release, now and then, runs in the name of this worker that it does not know.

        Runs that other code has parked and rows of workers that are gone are looked for as rarely.
        """
        now = self._clock.monotonic()
        if now < self._next_audit:
            return
        await self._store.audit(self._worker, running)
        await self._unpark()
        await self._store.remove_workers()
        self._next_audit = now + AUDIT_EVERY

    def audit_soon(self) -> None:
        """Audit the next time."""
        self._next_audit = self._clock.monotonic()

    async def _unpark(self) -> None:
        await self._store.unpark(self._programs.codes, self.serves)
