"""Runs for slots that have passed without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.slot import Disposition
from onward.engine.schedules.deciding import MAX_STARTS, run_of
from onward.engine.schedules.reading import shown_slot
from onward.engine.schedules.timing import slot_run_id, timing_of
from onward.errors import BadInput
from onward.model.schedules import ScheduleChange, SlotRow, SlotStart
from onward.store.runs.schedules import change_schedule, seen_schedule, slots_between

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.engine.schedules.views import Slot
    from onward.model.schedules import SeenSchedule
    from onward.store.store import Store

MAX_BACKFILL = 10_000
"""How many slots one backfill may cover."""


async def backfill(
    store: Store, seen: SeenSchedule, start: Instant, before: Instant, *, dry_run: bool
) -> list[Slot]:
    """Start runs for slots that have passed without one, and return these slots.

    Those that a worker has still to decide about are left to it. A backfill that was interrupted
    can be repeated: it continues with the slots that have no run yet.

    Raises:
        BadInput: there are too many of them.
    """
    before = min(before, seen.row.decided_to + 1)
    timing = timing_of(seen.row)
    count = timing.count_between(start, before) if start < before else 0
    if count > MAX_BACKFILL:
        fact = f"covers {count:,} slots; the limit is {MAX_BACKFILL:,}"
        raise BadInput(
            f"the backfill of schedule {seen.row.name!r}", fact, "Choose a shorter period"
        )
    if not count:
        return []
    rows = await store.read(lambda tx: slots_between(tx, seen.row.name, start, before))
    started = {row.at for row in rows if row.run is not None}
    slots = [at for at in timing.newest(start, before, count) if at not in started]
    if not dry_run:
        for first in range(0, len(slots), MAX_STARTS):
            await _start(store, seen.row.name, slots[first : first + MAX_STARTS])
    return [shown_slot(at, _row(seen, at, timing.text), seen.row.zone) for at in slots]


async def _start(store: Store, name: str, slots: list[Instant]) -> None:
    uids = {at: store.new_uid() for at in slots}
    while (seen := await store.read(lambda tx: seen_schedule(tx, name))) is not None:
        text = timing_of(seen.row).text
        change = ScheduleChange(
            seen.row,
            [_row(seen, at, text) for at in slots],
            [SlotStart(at, run_of(seen.row, at, uids[at])) for at in slots],
        )
        if await change_schedule(store, change):
            return


def _row(seen: SeenSchedule, at: Instant, timing: str) -> SlotRow:
    run = slot_run_id(seen.row.name, at, seen.row.zone)
    return SlotRow(at, at, 1, Disposition.BACKFILLED, run, timing, seen.at)
