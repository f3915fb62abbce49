"""Changes of a schedule: what has passed by its old timing is accounted for first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.slot import Disposition
from onward.engine.schedules.timing import timing_of
from onward.model.schedules import ScheduleChange, SlotRow

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.model.schedules import ScheduleRow, SeenSchedule


def new_anchor(now: Instant) -> Instant:
    """Return where the grid of an interval begins: at the next whole second."""
    return -(-now // SECOND) * SECOND


def rescheduled(seen: SeenSchedule, row: ScheduleRow) -> ScheduleChange:
    """Return the change to another row of a schedule; its new slots begin now if it has any."""
    before = seen.row
    if (row.cron, row.every, row.zone) == (before.cron, before.every, before.zone):
        return ScheduleChange(row)
    if row.every != before.every:
        row = row._replace(anchor=new_anchor(seen.at))
    passed = Disposition.PAUSED if before.state == "paused" else Disposition.MISSED
    return caught_up(seen, row, passed)


def caught_up(seen: SeenSchedule, row: ScheduleRow, disposition: Disposition) -> ScheduleChange:
    """Return a change after which a schedule goes on from now.

    The slots that have passed by its old timing get one disposition. A timing that cannot be
    computed any more has none.
    """
    slots = []
    decided_to = seen.row.decided_to
    if seen.row.state != "parked" or timing_of(seen.row) == timing_of(row):
        old = timing_of(seen.row)
        due = old.due(decided_to, seen.at)
        if due.first is not None:
            last = due.newest[-1]
            given = (due.first, last, due.count, disposition, None, old.text, seen.at)
            slots.append(SlotRow(*given))
            decided_to = last
    decided_to = max(decided_to, seen.at) if timing_of(row) != timing_of(seen.row) else decided_to
    look_at = next(timing_of(row).after(max(decided_to, seen.at)), None)
    return ScheduleChange(row._replace(decided_to=decided_to, look_at=look_at, held=None), slots)
