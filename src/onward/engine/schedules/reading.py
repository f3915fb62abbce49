"""Schedules and slots, read for users."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from onward.engine.display import shown_time, shown_value
from onward.engine.schedules.timing import local_time, read_timing
from onward.engine.schedules.views import ScheduleInfo, Slot
from onward.errors import BadInput
from onward.store.runs.schedules import declared_names, newest_slots, seen_schedules

if TYPE_CHECKING:
    from datetime import datetime

    from onward.core.instant import Instant
    from onward.model.schedules import SeenSchedule, SlotRow
    from onward.store.store import Store


async def all_infos(store: Store) -> list[ScheduleInfo]:
    """Return all schedules by name."""
    names = await store.read(declared_names)
    return [_info(seen, names) for seen in await store.read(seen_schedules)]


async def info(store: Store, seen: SeenSchedule) -> ScheduleInfo:
    """Return one schedule."""
    return _info(seen, await store.read(declared_names))


def _info(seen: SeenSchedule, in_code: frozenset[str] | None) -> ScheduleInfo:
    row = seen.row
    is_active = row.state == "active"
    return ScheduleInfo(
        name=row.name,
        workflow=row.workflow,
        arguments=shown_value(row.input),
        cron=row.cron,
        every=None if row.every is None else timedelta(microseconds=row.every),
        zone=row.zone,
        overlap=row.overlap,
        catch_up=row.catch_up,
        max_catch_up=row.cap,
        jitter=timedelta(microseconds=row.jitter),
        queue=msgspec.json.decode(row.options).get("queue", "default"),
        state=row.state,
        error=row.error,
        next_at=_shown(row.look_at, row.zone) if is_active and row.held is None else None,
        held_at=_shown(row.held, row.zone),
        open_runs=len(seen.open_runs),
        declared=bool(row.declared),
        is_missing_in_code=bool(row.declared) and in_code is not None and row.name not in in_code,
        overrides=tuple(row.overrides.split()),
        created_at=shown_time(row.created_at),
        updated_at=shown_time(row.updated_at),
    )


def _shown(at: Instant | None, zone: str) -> datetime | None:
    if at is None:
        return None
    try:
        return local_time(at, zone)
    except BadInput:  # the machine does not know the zone any more
        return shown_time(at)


async def slots(store: Store, seen: SeenSchedule, limit: int) -> list[Slot]:
    """Return the latest slots, the newest first; those in a span one by one."""
    # The last slot of a span may have a row of its own.
    rows = await store.read(lambda tx: newest_slots(tx, seen.row.name, 2 * limit))
    found: dict[Instant, SlotRow] = {}
    for row in rows:
        if row.slots and row.at < row.until:
            for at in read_timing(row.timing).newest(row.at, row.until + 1, limit):
                found.setdefault(at, row)
    found.update((row.at, row) for row in rows if row.at == row.until)
    newest = sorted(found.items(), reverse=True)[:limit]
    return [shown_slot(at, row, seen.row.zone) for at, row in newest]


def shown_slot(at: Instant, row: SlotRow, zone: str) -> Slot:
    """Return one slot of a row."""
    lateness = timedelta(microseconds=row.decided_at - at)
    when = _shown(at, zone)
    assert when is not None
    return Slot(when, str(row.disposition), row.run, lateness)
