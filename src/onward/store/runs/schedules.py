"""Schedules and their slots, as functions of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import RunKind
from onward.core.slot import AHEAD_TOLERATED, NEWEST_KEPT, SLOTS_KEPT, Disposition
from onward.model.schedules import ScheduleRow, SeenSchedule, SlotRow
from onward.store.hints import PIPELINES, SCHEDULES, queue_subject
from onward.store.writing.text_limits import check_run

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.model.schedules import NewSchedule, ScheduleChange, SlotStart
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_OPEN = 100
"""How many open runs of a schedule are read at a time."""


async def now_of(tx: Tx) -> Instant:
    """Return the database's time."""
    [[now]] = await tx.fetch("clock")
    return int(now)


async def insert_schedule(tx: Tx, new: NewSchedule) -> bool:
    """Create a schedule; return whether there was none of that name."""
    given = new.spec._asdict() | new._asdict()
    del given["spec"]
    return bool(await tx.fetch("insert_schedule", **given))


async def due_schedules(tx: Tx, limit: int) -> list[SeenSchedule]:
    """Return schedules with slots to decide about, the latest first."""
    now = await now_of(tx)
    rows = [ScheduleRow._make(row) for row in await tx.fetch("due_schedules", limit=limit)]
    return [SeenSchedule(now, row, await _open_runs(tx, row)) for row in rows]


async def schedules_ahead(tx: Tx, limit: int) -> list[SeenSchedule]:
    """Return schedules that have got further than the clock, which was set back since."""
    now = await now_of(tx)
    given = {"tolerated": AHEAD_TOLERATED, "limit": limit}
    rows = [ScheduleRow._make(row) for row in await tx.fetch("schedules_ahead", **given)]
    return [SeenSchedule(now, row, ()) for row in rows]


async def taken_slots(tx: Tx, name: str, since: Instant) -> list[Instant]:
    """Return slots later than `since` that have passed and that had a run before."""
    rows = await tx.fetch("taken_slots", schedule=name, since=since)
    return [row[0] for row in rows]


async def seen_schedule(tx: Tx, name: str) -> SeenSchedule | None:
    """Return one schedule, if there is one of that name."""
    rows = await tx.fetch("schedule_by_name", name=name)
    if not rows:
        return None
    row = ScheduleRow._make(rows[0])
    return SeenSchedule(await now_of(tx), row, await _open_runs(tx, row))


async def seen_schedules(tx: Tx) -> list[SeenSchedule]:
    """Return all schedules by name."""
    now = await now_of(tx)
    rows = [ScheduleRow._make(row) for row in await tx.fetch("all_schedules")]
    return [SeenSchedule(now, row, await _open_runs(tx, row)) for row in rows]


async def _open_runs(tx: Tx, schedule: ScheduleRow) -> tuple[str, ...]:
    producer = _producer_of(schedule.workflow)
    if producer is not None:
        rows = await tx.fetch("open_work_of_producer", handler=producer)
    else:
        given = {"schedule": schedule.name, "limit": MAX_OPEN}
        rows = await tx.fetch("open_runs_of_schedule", **given)
    return tuple(row[0] for row in rows)


def _producer_of(workflow: str) -> str | None:
    """Return the producer whose runs have this name; None for a workflow."""
    kind, _, name = workflow.partition(" ")
    return name if kind == RunKind.PRODUCER and name else None


async def change_schedule(
    store: Store, change: ScheduleChange, *, is_sooner: bool = False, patient: bool = True
) -> bool:
    """Make a change, unless another was made since; return whether it was made.

    `is_sooner` says that workers may have to look at the schedule sooner than they know.

    Raises:
        Contended: this is not `patient`, and another transaction has started a run of the same id
            and not committed yet, or changes the schedule.
    """
    is_made, subjects = await store.database.write(lambda tx: _change(tx, change), patient=patient)
    store.database.publish(subjects | ({SCHEDULES} if is_sooner else set()))
    return is_made


async def _change(tx: Tx, change: ScheduleChange) -> tuple[bool, set[str]]:
    row = change.row
    rows = await tx.fetch("lock_schedule", name=row.name)
    if not rows or rows[0][0] != row.version:
        return False, set()
    assumed = change.has_open_run
    if assumed is not None and assumed != bool(await _open_runs(tx, row)):
        return False, set()
    await tx.fetch("save_schedule", **row._asdict())
    if change.undone_after is not None:
        await tx.fetch("undo_slots", schedule=row.name, after=change.undone_after)
    for slot in change.slots:
        await _add_slot(tx, row.name, slot)
    if change.slots:
        given = {"schedule": row.name, "kept": SLOTS_KEPT, "newest": NEWEST_KEPT}
        await tx.fetch("remove_old_slots", **given)
    subjects: set[str] = set()
    for start in change.starts:
        subjects |= await _start(tx, row.name, start)
    return True, subjects


async def _add_slot(tx: Tx, schedule: str, slot: SlotRow) -> None:
    given = slot._asdict() | {"schedule": schedule}
    if slot.disposition == Disposition.BACKFILLED:
        # It has a disposition already, by itself or as one of many.
        if await tx.fetch("replace_slot", **given):
            return
        await tx.fetch("take_slot_out", **given)
    await tx.fetch("add_slot", **given)


async def _start(tx: Tx, schedule: str, start: SlotStart) -> set[str]:
    """Start the run of a slot and return the hints to publish.

    If its id is taken, the run that has it is the slot's. A producer is not started but has work:
    a worker starts its run when the lane of its pipeline is free.
    """
    run = start.run
    check_run(run)
    producer = _producer_of(run.name)
    if producer is not None:
        given = {"handler": producer, "id": run.id, "slot": start.at}
        return {PIPELINES} if await tx.fetch("raise_producer", **given) else set()
    if not await tx.fetch("insert_run", **run._asdict()):
        return set()
    await tx.fetch("insert_run_data", **run._asdict())
    await tx.fetch("mark_scheduled", uid=run.uid, schedule=schedule, at=start.at)
    return {queue_subject(run.queue)}


async def delete_schedule(tx: Tx, name: str) -> bool:
    """Delete a schedule with its slots; its runs stay. Return whether there was one."""
    if not await tx.fetch("delete_schedule", name=name):
        return False
    await tx.fetch("delete_slots", schedule=name)
    return True


async def newest_slots(tx: Tx, name: str, limit: int) -> list[SlotRow]:
    """Return the latest rows of slots, the newest first."""
    rows = await tx.fetch("newest_slots", schedule=name, limit=limit)
    return [SlotRow._make(row) for row in rows]


async def slots_between(tx: Tx, name: str, start: Instant, before: Instant) -> list[SlotRow]:
    """Return the rows of slots that touch a time, the oldest first."""
    rows = await tx.fetch("slots_between", schedule=name, start=start, before=before)
    return [SlotRow._make(row) for row in rows]


async def declared_names(tx: Tx) -> frozenset[str] | None:
    """Return the schedules that the code of live workers declares; None if no worker is alive."""
    rows = await tx.fetch("declared_schedules")
    if not rows:
        return None
    return frozenset(name for row in rows for name in row[0].split("\n"))
