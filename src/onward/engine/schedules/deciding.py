"""Dispositions of slots: any worker may decide, and exactly one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from onward.core.slot import CatchUp, Overlap, Rules, jittered, plan, without
from onward.engine.schedules.rewinding import rewind
from onward.engine.schedules.timing import has_slot, slot_run_id, timing_of
from onward.engine.starting import ask_to_end
from onward.errors import Rejected, Unavailable
from onward.model.runs import NewRun
from onward.model.schedules import ScheduleChange, SlotRow, SlotStart
from onward.store.runs.schedules import (
    change_schedule,
    due_schedules,
    schedules_ahead,
    seen_schedule,
    taken_slots,
)
from onward.store.writing.lane import Contended
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.instant import Instant
    from onward.core.slot import Due, Plan, Span
    from onward.engine.schedules.timing import Timing
    from onward.model.schedules import ScheduleRow, SeenSchedule
    from onward.store.store import Store

    Offload = Callable[[Callable[[], Due]], Awaitable[Due]]

MAX_SCHEDULES = 100
"""How many schedules are decided about in one turn."""

MAX_STARTS = 100
"""How many runs of a schedule are started in one transaction."""


async def in_place(compute: Callable[[], Due]) -> Due:
    """Compute in the event loop, where there are no threads."""
    return compute()


class SlotDecisions:
    """Decides about slots that have passed.

    Args:
        store: Where the schedules are.
        offload: Computes what is due outside of the event loop. A month of missed seconds takes
            milliseconds, but there may be many schedules.
    """

    def __init__(self, store: Store, offload: Offload) -> None:
        self._store = store
        self._offload = offload

    async def tick(self) -> None:
        """Decide about all slots that have passed; one broken schedule stops no other.

        Raises:
            Unavailable: the store is away, or could not write for one of the schedules.
        """
        for ahead in await self._store.read(lambda tx: schedules_ahead(tx, MAX_SCHEDULES)):
            await rewind(self._store, ahead)
        failure: Unavailable | None = None
        for seen in await self._store.read(lambda tx: due_schedules(tx, MAX_SCHEDULES)):
            again: SeenSchedule | None = seen
            try:
                while again is not None:
                    again = await self._decide(again)
            except Contended:
                continue  # a caller's transaction has its run: the next tick tries again
            except Unavailable as error:
                if failure is not None:
                    raise
                failure = error  # perhaps for this schedule alone
        if failure is not None:
            raise failure

    async def _decide(self, seen: SeenSchedule) -> SeenSchedule | None:
        """Decide about slots of one schedule, and return it if there is more to decide."""
        taken = await self._store.read(
            lambda tx: taken_slots(tx, seen.row.name, seen.row.decided_to)
        )
        try:  # nothing in here asks the store: that it is away breaks no schedule
            timing = timing_of(seen.row)
            due = await self._offload(lambda: due_of(seen, timing, taken))
            made = planned(seen, due)
            change = change_for(seen, made, timing.text, self._store.new_uid)
        except Exception as error:  # noqa: BLE001 - whatever breaks it breaks this schedule alone
            await self._park(seen, error)
            return None
        if made.replaces and all([await ask_to_end(self._store, uid) for uid in seen.open_runs]):
            return await self._again(seen)  # none of them had begun
        if change.row == seen.row:  # it waits for open runs
            return None
        try:
            if not await change_schedule(self._store, change, patient=False):
                return None  # another process has decided
        except Rejected as error:
            await self._park(seen, error)
            return None
        report(change)
        if made.held is not None or change.row.look_at is None or change.row.look_at > seen.at:
            return None
        return await self._again(seen)

    async def _again(self, seen: SeenSchedule) -> SeenSchedule | None:
        found = await self._store.read(lambda tx: seen_schedule(tx, seen.row.name))
        return found if found is not None and found.row.state == "active" else None

    async def _park(self, seen: SeenSchedule, error: Exception) -> None:
        parked = seen.row._replace(state="parked", error=f"{type(error).__name__}: {error}")
        if await change_schedule(self._store, ScheduleChange(parked)):
            emit("schedule.parked", schedule=seen.row.name, cause=error)


def due_of(seen: SeenSchedule, timing: Timing, taken: list[Instant]) -> Due:
    """Return the slots of a schedule that have passed and had no run before."""
    due = timing.due(seen.row.decided_to, seen.at)
    return without(due, tuple(at for at in taken if at <= seen.at and has_slot(timing, at)))


def planned(seen: SeenSchedule, due: Due) -> Plan:
    """Return the dispositions of the slots of a schedule that have passed."""
    row = seen.row
    return plan(
        due,
        Rules(CatchUp(row.catch_up), Overlap(row.overlap), row.cap),
        now=seen.at,
        open_run=bool(seen.open_runs),
        paused=row.state != "active",
        held=row.held is not None,
    ).first_part(MAX_STARTS)


def change_for(
    seen: SeenSchedule, made: Plan, timing: str, new_uid: Callable[[], str]
) -> ScheduleChange:
    """Return the change that a plan asks for."""
    row = seen.row
    starts = [SlotStart(at, run_of(row, at, new_uid())) for at in made.starts]
    ids = {start.at: start.run.id for start in starts}
    slots = [SlotRow(*span_of(span), ids.get(span.first), timing, seen.at) for span in made.spans]
    after = row._replace(
        decided_to=made.spans[-1].last if made.spans else row.decided_to,
        held=made.held,
        look_at=made.next_due if made.held is None else made.held,
    )
    has_open_run = None if row.overlap == Overlap.ALLOW else bool(seen.open_runs)
    return ScheduleChange(after, slots, starts, has_open_run)


def span_of(span: Span) -> tuple[Instant, Instant, int, str]:
    """Return a span as the first columns of its row."""
    return span.first, span.last, span.count, span.disposition


def run_of(row: ScheduleRow, at: Instant, uid: str) -> NewRun:
    """Return the run of a slot."""
    return NewRun(
        uid,
        slot_run_id(row.name, at, row.zone),
        row.workflow,
        row.input,
        row.args_hash,
        due=jittered(row.name, at, row.jitter),
        **msgspec.json.decode(row.options),
    )


def report(change: ScheduleChange) -> None:
    """Log the dispositions of slots."""
    for slot in change.slots:
        seconds = (slot.decided_at - slot.at) / 1_000_000
        if slot.run is not None:
            emit("schedule.started", schedule=change.row.name, run=slot.run, late_seconds=seconds)
        else:
            emit(
                "schedule.skipped",
                schedule=change.row.name,
                disposition=slot.disposition,
                slots=slot.slots,
                late_seconds=seconds,
            )
