"""When a schedule has its slots: by cron or by interval, in microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from onward.core.instant import SECOND
from onward.core.slot import MAX_CATCH_UP, Due, due_interval, slot_after
from onward.engine.schedules.cron import cron_of, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Duration, Instant
    from onward.model.schedules import ScheduleRow, ScheduleSpec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Timing(Protocol):
    """The slots of a schedule."""

    @property
    def text(self) -> str:
        """The timing as it is stored with slots; `read_timing` reads it."""
        ...

    def due(self, since: Instant, now: Instant) -> Due:
        """Return the slots later than `since` that have passed, at any distance."""
        ...

    def after(self, instant: Instant) -> Iterator[Instant]:
        """Yield the slots later than an instant."""
        ...

    def count_between(self, start: Instant, before: Instant) -> int:
        """Return how many slots lie from `start` to before another instant."""
        ...

    def newest(self, start: Instant, before: Instant, limit: int) -> list[Instant]:
        """Return the last slots from `start` to before another instant, the oldest first."""
        ...


class CronTiming(NamedTuple):
    """Slots by a cron expression."""

    cron: str
    zone: str

    @property
    def text(self) -> str:
        return f"cron {self.zone} {self.cron}"

    def due(self, since: Instant, now: Instant) -> Due:
        cron = cron_of(self.cron, self.zone)
        start, before = _seconds_after(since), _seconds_after(now)
        following = next(cron.forward(max(start, before)), None)
        next_due = None if following is None else following * SECOND
        count = cron.count(start, before) if start < before else 0
        if not count:
            return Due(0, None, (), next_due)
        newest = tuple(at * SECOND for at in cron.newest(start, before, MAX_CATCH_UP + 1))
        first = newest[0]
        if count > len(newest):
            first = next(cron.forward(start, before)) * SECOND
        return Due(count, first, newest, next_due)

    def after(self, instant: Instant) -> Iterator[Instant]:
        for at in cron_of(self.cron, self.zone).forward(_seconds_after(instant)):
            yield at * SECOND

    def count_between(self, start: Instant, before: Instant) -> int:
        cron = cron_of(self.cron, self.zone)
        return cron.count(_seconds_after(start - 1), _seconds_after(before - 1))

    def newest(self, start: Instant, before: Instant, limit: int) -> list[Instant]:
        cron = cron_of(self.cron, self.zone)
        found = cron.newest(_seconds_after(start - 1), _seconds_after(before - 1), limit)
        return [at * SECOND for at in found]


class IntervalTiming(NamedTuple):
    """Slots at `anchor` and whole intervals after it; the anchor itself is none."""

    every: Duration
    anchor: Instant

    @property
    def text(self) -> str:
        return f"every {self.every} {self.anchor}"

    def due(self, since: Instant, now: Instant) -> Due:
        first = self.anchor + self.every
        return due_interval(anchor=first, every=self.every, since=since, now=now)

    def after(self, instant: Instant) -> Iterator[Instant]:
        at = instant
        while True:
            at = slot_after(at, anchor=self.anchor + self.every, every=self.every)
            yield at

    def count_between(self, start: Instant, before: Instant) -> int:
        return len(self._slots(start, before))

    def newest(self, start: Instant, before: Instant, limit: int) -> list[Instant]:
        return list(self._slots(start, before)[-limit:])

    def _slots(self, start: Instant, before: Instant) -> range:
        return range(next(self.after(start - 1)), before, self.every)


def timing_of(row: ScheduleRow) -> Timing:
    """Return the timing of a schedule."""
    return timing_of_spec(row.spec, row.anchor)


def timing_of_spec(spec: ScheduleSpec, anchor: Instant) -> Timing:
    """Return the timing that is asked for; the grid of an interval begins at `anchor`."""
    if spec.cron is not None:
        return CronTiming(spec.cron, spec.zone)
    assert spec.every is not None
    return IntervalTiming(spec.every, anchor)


def read_timing(text: str) -> Timing:
    """Return the timing that a text stands for."""
    kind, first, rest = text.split(" ", 2)
    return CronTiming(rest, first) if kind == "cron" else IntervalTiming(int(first), int(rest))


def has_slot(timing: Timing, instant: Instant) -> bool:
    """Return whether an instant is a slot."""
    return timing.count_between(instant, instant + 1) > 0


def first_slots(timing: Timing, after: Instant, count: int) -> list[Instant]:
    """Return the next slots after an instant."""
    return list(islice(timing.after(after), count))


def local_time(at: Instant, zone: str) -> datetime:
    """Return an instant in a time zone."""
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone_of(zone))


def slot_run_id(schedule: str, at: Instant, zone: str) -> str:
    """Return the id of the run of a slot: one slot, one id, whichever process starts it."""
    precise = "minutes" if at % (60 * SECOND) == 0 else "seconds" if at % SECOND == 0 else "auto"
    return f"{schedule}@{local_time(at, zone).isoformat(timespec=precise)}"


def _seconds_after(instant: Instant) -> int:
    """Return the first whole second that is later than an instant."""
    return instant // SECOND + 1
