"""The rules for schedules in a simulated world: each slot has one disposition, and one run at most.

A slot with a run keeps both for ever. Dispositions without a run are taken back only when the clock
was set back. What catch-up asks for is held against each transaction that decides.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import MINUTE
from onward.core.slot import ON_TIME_WITHIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Instant
    from onward.store.database import Tx

STATEMENTS = {
    "witness_schedules": """
        SELECT name, every, anchor, overlap, catch_up, cap, decided_to, held FROM onward_schedule
        ORDER BY name""",
    "witness_slots": """
        SELECT schedule, at, until, slots, disposition, run FROM onward_slot
        ORDER BY schedule, at, until""",
    "witness_scheduled": """
        SELECT id, schedule, scheduled_at FROM onward_run
        WHERE schedule IS NOT NULL AND follows IS NULL ORDER BY uid""",
}


class ScheduleSeen(NamedTuple):
    """A schedule's row."""

    name: str
    every: int
    anchor: Instant
    overlap: str
    catch_up: str
    cap: int
    decided_to: Instant
    held: Instant | None

    def grid(self, first: Instant, last: Instant) -> range:
        """Return all slots from one instant to another, however long before the anchor."""
        return range(first + (self.anchor - first) % self.every, last + 1, self.every)


class SlotSeen(NamedTuple):
    """A slot's row, or that of many."""

    schedule: str
    at: Instant
    until: Instant
    slots: int
    disposition: str
    run: str | None


class Slots:
    """The schedules, their slots and their runs at one moment."""

    def __init__(self) -> None:
        self.schedules: dict[str, ScheduleSeen] = {}
        self.rows: dict[tuple[str, Instant, Instant], SlotSeen] = {}
        self.runs: list[tuple[str, str, Instant]] = []


async def read_slots(tx: Tx) -> Slots:
    """Return the schedules of a database."""
    found = Slots()
    found.schedules = {
        row[0]: ScheduleSeen._make(row) for row in await tx.fetch("witness_schedules")
    }
    rows = [SlotSeen._make(row) for row in await tx.fetch("witness_slots")]
    found.rows = {(row.schedule, row.at, row.until): row for row in rows}
    found.runs = [(row[0], row[1], row[2]) for row in await tx.fetch("witness_scheduled")]
    return found


def broken_slots(before: Slots, after: Slots, earliest: Instant, latest: Instant) -> Iterator[str]:
    """Yield the rules that a transaction broke.

    Args:
        before: What was there before it.
        after: What is there after it.
        earliest: The least that the time may have been when the decision was made.
        latest: The most that it may have been: the clock may be set before that is written.
    """
    new: dict[str, list[SlotSeen]] = defaultdict(list)
    for place, row in after.rows.items():
        if place not in before.rows:
            new[row.schedule].append(row)
    for place, row in before.rows.items():
        if after.rows.get(place) == row:
            continue
        if row.run is not None:
            yield f"slot {place} lost its run {row.run}"
        elif not _went_back(before, after, row.schedule):
            yield f"the disposition of slot {place} was changed or lost"
    for name, rows in new.items():
        if not _went_back(before, after, name):
            rows.sort(key=lambda row: row.at)
            yield from _decided(before.schedules[name], rows, earliest, latest)
    times = Counter((schedule, at) for _, schedule, at in after.runs)
    yield from (f"slot {place} has {count} runs" for place, count in times.items() if count > 1)


def _went_back(before: Slots, after: Slots, name: str) -> bool:
    return after.schedules[name].decided_to < before.schedules[name].decided_to


def _decided(
    schedule: ScheduleSeen, rows: list[SlotSeen], earliest: Instant, latest: Instant
) -> Iterator[str]:
    """Yield what is wrong with the dispositions that one transaction gave."""
    started = [row for row in rows if row.disposition == "started"]
    others = {row.disposition for row in rows} - {"started"}
    text = f"{schedule.name} decided {[(row.at, row.slots, row.disposition) for row in rows]}"
    if any(row.until > latest for row in rows):
        yield f"{text} before its time"
    if len(started) > (schedule.cap if schedule.catch_up == "all" else 1):
        yield f"{text}: these are too many runs"
    if schedule.overlap != "allow":
        return
    late = [row for row in started if earliest - row.at > ON_TIME_WITHIN]
    if schedule.catch_up == "skip" and late:
        yield f"{text} too late"
    if schedule.catch_up == "latest" and started and started[-1] is not rows[-1]:
        yield f"{text}, but not the newest"
    if schedule.catch_up == "latest" and not started:
        yield f"{text}, and started none"
    if schedule.catch_up == "all" and others - {"capped"}:
        yield f"{text}, though all were to start"
    if "capped" in others and len(started) != schedule.cap:
        yield f"{text}, which is not the cap"


def broken_history(found: Slots, now: Instant) -> Iterator[str]:
    """Yield the slots that have no disposition or several, once all is over.

    A schedule that was created shortly before the clock was set back may have had none by now.
    """
    for name, schedule in found.schedules.items():
        rows = [row for row in found.rows.values() if row.schedule == name]
        own = Counter(row.at for row in rows if row.at == row.until)
        times = Counter(own)
        for row in rows:
            if row.at < row.until:
                slots = [at for at in schedule.grid(row.at, row.until) if at not in own]
                times.update(slots)
                if len(slots) != row.slots:
                    yield f"{row} stands for {len(slots)} slots"
        yield from (f"{name} has {count} of {at}" for at, count in times.items() if count > 1)
        if not times:
            if now - schedule.anchor > schedule.every + MINUTE:
                yield f"{name} has no slots"
            continue
        lost = [at for at in schedule.grid(min(times), schedule.decided_to) if at not in times]
        if lost:
            yield f"{name} lost the slots {lost[:10]}"
        yield from (
            f"{name} has {at}, which is no slot" for at in times if at not in _on(schedule, at)
        )
        runs = sorted(row.run for row in rows if row.run is not None)
        if runs != sorted(run for run, schedule_name, _ in found.runs if schedule_name == name):
            yield f"the runs of {name} are not those of its slots: {runs}"


def _on(schedule: ScheduleSeen, at: Instant) -> range:
    return schedule.grid(at, at)
