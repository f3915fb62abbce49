"""Taking runs: a worker claims while it has free slots, and waits while there is nothing to do."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from onward.core.instant import SECOND
from onward.core.lease import AUDIT_EVERY
from onward.core.run import rooms_beside
from onward.model.claims import Wanted
from onward.model.workers import News
from onward.runtime.worker.outage import AWAY
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.engine.worker_engine import WorkerEngine
    from onward.model.runs import ClaimedRun
    from onward.runtime.execution.execution import Execution
    from onward.runtime.worker.options import Options
    from onward.telemetry.observer import Observer

POLL_SECONDS = 1.0
"""How late a worker may be when hints are lost."""

READ_ALL_EVERY = 3 * SECOND
"""How often a worker that always has something to do reads the inboxes of all its runs."""

MAX_DOUBLED = 30
"""How often a worker that finds nothing doubles its poll, where hints are not lost."""

MAX_CLAIM = 500


class Claimant(Protocol):
    """The session that claimed runs belong to."""

    id: str
    observer: Observer

    @property
    def running(self) -> Mapping[str, Execution]:
        """The runs that it has, by uid."""
        ...

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        ...

    async def begin(self, runs: Sequence[ClaimedRun]) -> None:
        """Begin runs that were claimed."""
        ...

    async def register_names(self) -> tuple[str, ...]:
        """Register again if there are other names to take by now, and return the names."""
        ...

    def read_inboxes(self, news: News) -> None:
        """Let the runs that may have changed read their inboxes."""
        ...

    def forget_held(self) -> None:
        """Forget runs that were lost, if the lease was renewed since."""
        ...


class Claiming:
    """Takes runs for a session."""

    def __init__(
        self, session: Claimant, engine: WorkerEngine, options: Options, clock: Clock
    ) -> None:
        self._session = session
        self._engine = engine
        self._options = options
        self._clock = clock
        self._claimed_at = 0
        self._maintained_at = 0
        self._read_all_at = clock.monotonic()
        self._next_audit = clock.monotonic() + AUDIT_EVERY
        self._has_limited_runs = False
        self._is_full = False
        self._idled = 0

    async def tick(self) -> int:
        """Claim, begin what was claimed, and return how many runs that was.

        Maintenance comes after a claim that found nothing, or once a second: a run that was just
        started is not to wait for it.
        """
        self._claimed_at = self._clock.monotonic()
        await self._audit()
        self._session.forget_held()
        claimed = await self._claim()
        if not claimed or self._clock.monotonic() - self._maintained_at >= SECOND:
            had_limited_runs = self._has_limited_runs
            self._maintained_at = self._clock.monotonic()
            self._has_limited_runs = await self._engine.maintain()
            took = self._clock.monotonic() - self._maintained_at
            self._session.observer.maintenance_took(self._session.id, took)
            if self._has_limited_runs and not had_limited_runs:
                claimed += await self._claim()
        if claimed:
            self._idled = 0
            self._read_inboxes(News())
        return claimed

    async def _audit(self) -> None:
        """Release, now and then, runs in the name of this worker that it does not know."""
        now = self._clock.monotonic()
        if now >= self._next_audit:
            await self._engine.audit(list(self._session.running))
            self._next_audit = now + AUDIT_EVERY

    def audit_soon(self) -> None:
        """Audit at the next tick: a claim may have been made whose answer did not come."""
        self._next_audit = self._clock.monotonic()

    async def _claim(self) -> int:
        session = self._session
        free = self._options.slots - len(session.running)
        self._is_full = free <= 0
        if self._is_full:
            return 0
        names = await session.register_names()
        begun = self._clock.monotonic()
        claim = await self._engine.claim(
            Wanted(
                session.id,
                self._options.queues,
                names,
                min(free, MAX_CLAIM),
                self._options.version,
                self._options.tags,
                suspects=rooms_beside((run.crashes for run in session.running.values()), free),
            )
        )
        if claim.was_repeated:
            self.audit_soon()
        runs = claim.runs
        session.observer.claim_took(session.id, len(runs), self._clock.monotonic() - begun)
        _report_dead(runs, session.id)
        await session.begin(runs)
        if claim.changed:
            self._read_inboxes(News(tuple(sorted(claim.changed))))
        return len(runs)

    def gains_from(self, ended: ClaimedRun) -> bool:
        """Return whether the success of a run may let the worker claim another one.

        A worker waits only after a claim that found nothing. What is ready later comes with a
        hint, unless it was held back by the run: by its slot, its limit, its crashes or its lane.
        """
        is_held_back = self._is_full or self._has_limited_runs
        return is_held_back or bool(ended.held_by or ended.crashes or ended.handler)

    async def idle(self) -> None:
        """Wait until there may be something to do: news, a due time, or the next poll."""
        due = await self._next_due()
        seconds = self._poll_seconds(due)
        if due is not None:
            seconds = min(seconds, max(0.0, (due - self._session.now()) / 1_000_000))
        self._idled += 1
        await self.wait(seconds)

    async def wait(self, seconds: float) -> None:
        """Wait for news, and let the runs that it is about read their inboxes."""
        self._read_inboxes(await self._engine.wait(seconds))

    def _read_inboxes(self, news: News) -> None:
        # A worker that always has something to do comes to no poll, and hints may be lost.
        now = self._clock.monotonic()
        is_due = now - self._read_all_at >= READ_ALL_EVERY and not self._options.is_alone
        if news.everything or is_due:
            self._read_all_at = now
        self._session.read_inboxes(News(everything=True) if is_due else news)

    def _poll_seconds(self, due: Instant | None) -> float:
        if not self._options.is_alone or self._has_limited_runs:
            return POLL_SECONDS
        # A test may put the clock forward: then what is due comes sooner than the timer for it.
        return math.inf if due is None else POLL_SECONDS * 2 ** min(self._idled, MAX_DOUBLED)

    async def _next_due(self) -> Instant | None:
        # What was due when we claimed and is still there is not for this worker to take, or
        # not now: without a free slot it would ask for it again and again without a pause.
        # That time is computed from the database's latest answer: its clock may have been set back.
        since = self._clock.monotonic() - self._claimed_at
        try:
            return await self._engine.next_due(self._session.now() - since)
        except AWAY:
            return None


def _report_dead(runs: Sequence[ClaimedRun], worker: str) -> None:
    """Log which workers have died, by the runs that were taken over from them."""
    dead = Counter(run.taken_from for run in runs if run.taken_from is not None)
    for name, count in dead.items():
        emit("worker.dead", worker=name, runs=count, continued_by=worker)
