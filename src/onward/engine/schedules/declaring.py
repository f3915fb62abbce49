"""Schedules that code declares: created, or changed where no operator has changed them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.digest import digest
from onward.engine.schedules.retiming import new_anchor, rescheduled
from onward.engine.schedules.timing import first_slots, timing_of_spec
from onward.model.schedules import NewSchedule, ScheduleSpec
from onward.store.hints import SCHEDULES
from onward.store.runs.schedules import change_schedule, insert_schedule, seen_schedule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.store.store import Store

_TOGETHER = (("workflow", "input", "args_hash", "options"), ("cron", "every"))
"""Fields that are changed as one."""


async def declare(store: Store, specs: Iterable[ScheduleSpec]) -> None:
    """Make schedules what the code says of them.

    A deploy that declares the same again changes nothing, so that a pause or a change by an
    operator survives it. One that declares something else changes the fields that no operator has
    changed.
    """
    for spec in specs:
        while not await _declare(store, spec):
            pass  # it was changed or deleted meanwhile


async def _declare(store: Store, spec: ScheduleSpec) -> bool:
    declared = fingerprint_of(spec)
    seen = await store.read(lambda tx: seen_schedule(tx, spec.name))
    if seen is None:
        return await insert(store, spec, declared)
    if seen.row.declared == declared:
        return True
    kept = set(seen.row.overrides.split())
    given = {name: value for name, value in spec._asdict().items() if name not in kept}
    row = seen.row._replace(declared=declared, **given)
    return await change_schedule(store, rescheduled(seen, row), is_sooner=True)


async def insert(store: Store, spec: ScheduleSpec, declared: str = "") -> bool:
    """Create a schedule; return whether there was none of that name."""
    now = await store.now()
    anchor = new_anchor(now)
    [first] = first_slots(timing_of_spec(spec, anchor), now, 1)
    new = NewSchedule(spec, anchor, now, first, declared)
    is_made = await store.write(lambda tx: insert_schedule(tx, new))
    store.database.publish([SCHEDULES])
    return is_made


def fingerprint_of(spec: ScheduleSpec) -> str:
    """Return a text that is equal for equal declarations."""
    return digest("schedule", *(repr(value) for value in spec))


def overridden(before: ScheduleSpec, after: ScheduleSpec, already: str) -> str:
    """Return which fields an operator has changed by now."""
    changed = {
        name
        for name, old, new in zip(ScheduleSpec._fields, before, after, strict=True)
        if old != new
    } | set(already.split())
    for group in _TOGETHER:
        if changed.intersection(group):
            changed.update(group)
    return " ".join(sorted(changed))
