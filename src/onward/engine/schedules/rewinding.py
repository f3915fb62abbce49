"""Schedules that got ahead of the clock: it was too far ahead, and was set back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.slot import anchor_by
from onward.engine.schedules.timing import has_slot, read_timing, timing_of
from onward.model.schedules import ScheduleChange, SlotRow
from onward.store.runs.schedules import change_schedule, slots_between
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.schedules import SeenSchedule
    from onward.store.store import Store


async def rewind(store: Store, seen: SeenSchedule) -> None:
    """Let a schedule go on from now, although it has got further than that."""
    name, reached = seen.row.name, seen.row.decided_to
    rows = await store.read(lambda tx: slots_between(tx, name, seen.at + 1, reached + 1))
    if await change_schedule(store, rewound(seen, rows)):
        emit("schedule.rewound", schedule=name, ahead_seconds=(reached - seen.at) / SECOND)


def rewound(seen: SeenSchedule, rows: Sequence[SlotRow]) -> ScheduleChange:
    """Return a change after which slots later than now have no disposition but their runs.

    Args:
        seen: A schedule that has got further than now.
        rows: Its slots later than now.
    """
    row = seen.row
    if row.every is not None:
        row = row._replace(anchor=anchor_by(seen.at, anchor=row.anchor, every=row.every))
    look_at = next(timing_of(row).after(seen.at), None)
    row = row._replace(decided_to=seen.at, look_at=look_at, held=None)
    begun = [each for each in rows if each.run is None and each.at <= seen.at]
    return ScheduleChange(row, [_passed(seen, each, rows) for each in begun], (), None, seen.at)


def _passed(seen: SeenSchedule, span: SlotRow, rows: Sequence[SlotRow]) -> SlotRow:
    """Return the part of a span that has passed."""
    timing = read_timing(span.timing)
    own = {each.at for each in rows if each.run is not None and seen.at < each.at <= span.until}
    later = timing.count_between(seen.at + 1, span.until + 1) - sum(
        has_slot(timing, at) for at in own
    )
    return span._replace(until=seen.at, slots=span.slots - later)
