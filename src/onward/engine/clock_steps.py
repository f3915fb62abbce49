"""Watches the database's clock for a worker, so that no wait on record ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.clock_steps import STEP, SeenStep
from onward.core.value import changed
from onward.engine.database_time import DatabaseTime
from onward.store.runs.clock_steps import record_step, time_and_latest_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.store.store import Store


class ClockSteps:
    """Compares the database's time with a steady clock, and records when the former was set.

    Args:
        store: Where steps are recorded.
        clock: The steady clock.
        worker: The worker that records them; it must have its lease.
        recorded: Called when a step was recorded: runs that are due may be claimed now.
    """

    def __init__(
        self, store: Store, clock: Clock, worker: str, recorded: Callable[[], None]
    ) -> None:
        self._store = store
        self._clock = clock
        self.worker = worker
        self._recorded = recorded
        self._time = DatabaseTime(clock, self._stepped)
        self._at: Instant = 0
        self._seen: SeenStep | None = None
        self._known = 0

    async def join(self) -> tuple[Instant, int]:
        """Begin with the database's time and what is recorded so far.

        Returns:
            The database's time, and what the steady clock said when it was asked for.
        """
        asked = self._clock.monotonic()
        self._at, self._known = await self._store.read(time_and_latest_step)
        self._time.learn(self._at, asked)
        return self._at, asked

    def latest(self) -> Instant:
        """Return up to when runs may be claimed as due: not further than time has passed."""
        step = 0 if self._seen is None else max(0, self._seen.step)
        return self._time.latest() + STEP - step

    def _stepped(self, step: Duration) -> None:
        before, earlier = (
            (self._at, 0) if self._seen is None else (self._seen.before, self._seen.step)
        )
        self._seen = SeenStep(before, 0, earlier + step)

    async def learn(self, at: Instant, asked: int, latest: int | None = None) -> bool:
        """Learn the database's time from an answer, and return whether a step was recorded.

        Args:
            at: The time.
            asked: What the steady clock said when it was asked for.
            latest: The number of the latest step on record, if the answer has it. One that others
                recorded and this worker did not see was before it joined.
        """
        self._time.learn(at, asked)
        if self._seen is None:
            self._at = at
            self._known = self._known if latest is None else latest
            return False
        seen = self._seen = changed(self._seen, at=at)
        known = self._known
        self._known = await self._store.write(lambda tx: record_step(tx, self.worker, known, seen))
        self._seen, self._at = None, at
        self._recorded()
        return True
