"""When a cron expression fires in a time zone: counted by days, however long the time is.

cronsim parses the expression and says which days match. Its rules for daylight saving time are
those of Debian's cron. An expression with five fields whose minute and hour do not begin with a
star fires once per matching time: in the hour that is repeated it fires the first time, and what
falls into the hour that is left out fires when that hour is over. Any other expression follows the
clock on the wall: it fires in both of the repeated hours, and not in the one that is left out.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import date, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = 86_400
HORIZON = 50 * 366 * DAY
"""How far ahead a slot is looked for."""

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EPOCH = date(1970, 1, 1).toordinal()
_FIELDS = 'Use five fields, "minute hour day month weekday", or six, with seconds first.'


class _Piece(NamedTuple):
    """Seconds of UTC, from `start` to before `end`, that have one offset on the wall.

    `late` are the times on the wall that a clock which was set forward has left out just before.
    """

    start: int
    end: int
    offset: int
    late: range = range(0)


class Cron:
    """A cron expression in a time zone. All times are whole seconds of UTC.

    Args:
        text: The expression, or an alias such as "@daily".
        zone: The name of the time zone.

    Raises:
        BadInput: one of the two is none.
    """

    def __init__(self, text: str, zone: str) -> None:
        self._zone = zone_of(zone)
        expanded = ALIASES.get(text.strip().lower(), text)
        try:
            self._days = CronSim(expanded, datetime(2000, 1, 1))  # noqa: DTZ001 - only parsed
        except CronSimError as error:
            fact = f"is not a cron expression: {str(error).lower()}"
            raise BadInput(f"cron {text!r}", fact, _FIELDS) from None
        minute, hour = self._days.parts[1:3]
        has_star = minute.startswith("*") or hour.startswith("*")
        self._is_fixed = not has_star and len(expanded.split()) == 5
        days = self._days
        self._per_day = len(days.hours) * len(days.minutes) * len(days.seconds)

    # --- what is asked ---------------------------------------------------------------------------

    def count(self, start: int, end: int) -> int:
        """Return how many slots lie from `start` to before `end`."""
        return sum(self._count_in(piece) for piece in self._pieces(start, end))

    def forward(self, start: int, end: int | None = None) -> Iterator[int]:
        """Yield the slots from `start` to before `end`, the earliest first."""
        last = start + HORIZON if end is None else end
        days = 2
        while start < last:  # a slot tomorrow is not to cost a look at fifty years
            following = min(start + days * DAY, last)
            for piece in self._pieces(start, following):
                yield from self._forward_in(piece)
            start, days = following, min(4 * days, 400)

    def _forward_in(self, piece: _Piece) -> Iterator[int]:
        if self._has_late(piece):
            yield piece.start
        first, last = piece.start + piece.offset, piece.end + piece.offset
        for day in range(first // DAY, (last - 1) // DAY + 1):
            for at in self._on_day(day, first, last):
                yield day * DAY + at - piece.offset

    def newest(self, start: int, end: int, limit: int) -> list[int]:
        """Return the last slots from `start` to before `end`, the earliest of them first."""
        return list(islice(self._backward(start, end), limit))[::-1]

    def _backward(self, start: int, end: int) -> Iterator[int]:
        for piece in reversed(list(self._pieces(start, end))):
            first, last = piece.start + piece.offset, piece.end + piece.offset
            for day in range((last - 1) // DAY, first // DAY - 1, -1):
                for at in reversed(self._on_day(day, first, last)):
                    yield day * DAY + at - piece.offset
            if self._has_late(piece):
                yield piece.start

    # --- a stretch of time with one offset -------------------------------------------------------

    def _count_in(self, piece: _Piece) -> int:
        first, last = piece.start + piece.offset, piece.end + piece.offset
        count = int(self._has_late(piece))
        for day in range(first // DAY, (last - 1) // DAY + 1):
            if first <= day * DAY and (day + 1) * DAY <= last:
                count += self._per_day if self._matches(day) else 0
            else:
                count += len(self._on_day(day, first, last))
        return count

    def _has_late(self, piece: _Piece) -> bool:
        """Return whether slots that were left out fire when the piece begins."""
        late = piece.late
        if not late or self._fires_between(late.stop, late.stop + 1):  # that one fires anyway
            return False
        return self._fires_between(late.start, late.stop)

    def _fires_between(self, first: int, last: int) -> bool:
        days = range(first // DAY, (last - 1) // DAY + 1)
        return any(self._on_day(day, first, last) for day in days)

    def _on_day(self, day: int, first: int, last: int) -> list[int]:
        """Return the seconds of a day on which it fires, within times on the wall."""
        if not self._matches(day):
            return []
        times = self._times
        begin = bisect_left(times, first - day * DAY)
        return times[begin : bisect_left(times, last - day * DAY, begin)]

    def _matches(self, day: int) -> bool:
        found = date.fromordinal(_EPOCH + day)
        return found.month in self._days.months and self._days.match_day(found)

    @cached_property
    def _times(self) -> list[int]:
        """The seconds of a day on which it fires."""
        days = self._days
        hours, minutes, seconds = sorted(days.hours), sorted(days.minutes), sorted(days.seconds)
        return [h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds]

    # --- the clock on the wall -------------------------------------------------------------------

    def _pieces(self, start: int, end: int) -> Iterator[_Piece]:
        """Yield the pieces from `start` to before `end`.

        Of the hour that is repeated, a fixed time has only the first one; the second is left out.
        """
        for piece, before in self._offsets(start, end):
            change = piece.offset - before
            begin, late = piece.start, range(0)
            if self._is_fixed and change > 0 and begin >= start:
                late = range(begin + before, begin + piece.offset)
            elif self._is_fixed and change < 0:
                begin -= change
            begin = max(begin, start)
            if begin < piece.end:
                yield _Piece(begin, piece.end, piece.offset, late)

    def _offsets(self, start: int, end: int) -> Iterator[tuple[_Piece, int]]:
        """Yield pieces up to `end`, each with the offset that was in force just before it.

        They begin a day before `start`, so that a change just before it is seen. A clock is set
        rarely, so it is compared once a day.
        """
        begun = at = start - DAY
        before = offset = self._offset(begun)
        while at < end:
            following = min(at + DAY, end)
            if self._offset(following) == offset:
                at = following
                continue
            turn = self._turn(at, following, offset)
            yield _Piece(begun, turn, offset), before
            before, offset = offset, self._offset(turn)
            begun = at = turn
        yield _Piece(begun, end, offset), before

    def _turn(self, low: int, high: int, offset: int) -> int:
        """Return the first second after `low` at which the clock has another offset."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _offset(self, at: int) -> int:
        offset = datetime.fromtimestamp(at, self._zone).utcoffset()
        return 0 if offset is None else offset // timedelta(seconds=1)


@lru_cache(maxsize=1_000)
def cron_of(text: str, zone: str) -> Cron:
    """Return a cron expression in a time zone, parsed once.

    Raises:
        BadInput: one of the two is none.
    """
    return Cron(text, zone)


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        BadInput: the database of time zones has none of this name.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):  # no such file, or a folder of zones
        advice = 'Use a name like "Europe/Berlin" or "UTC".'
        raise BadInput(
            f"zone {name!r}", "is not a time zone that this machine knows", advice
        ) from None
