"""Instants and durations as plain integers: microseconds, UTC.

`datetime` and `timedelta` belong to the public API; in here a number is enough and sorts.
"""

from __future__ import annotations

import math
import re
from typing import Protocol, TypeAlias

from onward.errors import BadInput

Instant: TypeAlias = int
Duration: TypeAlias = int

MICROSECOND: Duration = 1
MILLISECOND: Duration = 1_000
SECOND: Duration = 1_000_000
MINUTE: Duration = 60 * SECOND
HOUR: Duration = 60 * MINUTE
DAY: Duration = 24 * HOUR
WEEK: Duration = 7 * DAY

# A thousand years: any due time is still a date that `datetime` can show, and fits 64 bits.
MAX_DURATION: Duration = 365_000 * DAY

_UNITS = {
    "w": WEEK,
    "d": DAY,
    "h": HOUR,
    "m": MINUTE,
    "s": SECOND,
    "ms": MILLISECOND,
    "us": MICROSECOND,
}
_SHOWN = {unit: _UNITS[unit] for unit in ("d", "h", "m", "s", "ms", "us")}
_PART = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?(ms|us|[wdhms])", re.ASCII)
_ADVICE = 'Write a duration like "1h30m", "250ms" or "3d", or give seconds.'


class TimedeltaLike(Protocol):
    """A `datetime.timedelta`, which the core may not import."""

    @property
    def days(self) -> int:
        """Return the whole days; only these may be negative."""
        ...

    @property
    def seconds(self) -> int:
        """Return the whole seconds beyond the days."""
        ...

    @property
    def microseconds(self) -> int:
        """Return the microseconds beyond the seconds."""
        ...


DurationLike: TypeAlias = str | int | float | TimedeltaLike


def duration(value: DurationLike) -> Duration:
    """Return a length of time in microseconds, rounded to the nearest.

    Args:
        value: Text such as "1h30m" (units w, d, h, m, s, ms, us), seconds, or a timedelta.

    Raises:
        BadInput: it is malformed, negative, not finite or longer than a thousand years.
    """
    length = _parsed(value)
    if length < 0:
        raise _bad(value, "is negative", 'Use 0 or more, such as "1h30m".')
    if length > MAX_DURATION:
        raise _bad(value, "is longer than a thousand years", 'Use a shorter one, such as "1h30m".')
    return length


def _parsed(value: DurationLike) -> Duration:
    match value:
        case bool():
            raise _bad(value, "is not a length of time")
        case str():
            return _from_text(value)
        case int():
            return value * SECOND
        case float():
            if not math.isfinite(value * SECOND):
                raise _bad(value, "is not a finite number of seconds")
            return round(value * SECOND)
        case _:
            return _from_parts(value)


def _from_parts(value: TimedeltaLike) -> Duration:
    # Asked, not looked at: a check against the protocol costs more than all the rest of a sleep.
    try:
        return value.days * DAY + value.seconds * SECOND + value.microseconds
    except (AttributeError, TypeError):
        raise BadInput("a duration", f"cannot be of type {type(value).__name__}", _ADVICE) from None


def _from_text(text: str) -> Duration:
    length = position = 0
    seen: set[str] = set()
    while part := _PART.match(text, position):
        if part[3] in seen:
            raise _bad(text, f"has the unit {part[3]!r} twice")
        seen.add(part[3])
        whole, fraction, unit = part[1], part[2] or "", _UNITS[part[3]]
        scale = 10 ** len(fraction)
        length += (int(whole + fraction) * unit * 2 + scale) // (2 * scale)
        position = part.end()
    if not text or position != len(text):
        raise _bad(text, "is not a valid duration")
    return length


def _bad(value: DurationLike, fact: str, advice: str = _ADVICE) -> BadInput:
    # An int of thousands of digits refuses to be shown at all.
    shown = "of many digits" if isinstance(value, int) and value.bit_length() > 200 else repr(value)
    if len(shown) > 80:
        shown = f"{shown[:60]}…{shown[-10:]}"
    return BadInput(f"duration {shown}", fact, advice)


def show(length: Duration) -> str:
    """Return a duration as people write it, such as "1h30m"; `duration()` reads it back."""
    if length == 0:
        return "0s"
    parts, rest = [], abs(length)
    for unit, size in _SHOWN.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if length < 0 else "") + "".join(parts)


def instant_text(instant: Instant) -> str:
    """Return an instant as ISO 8601 in UTC, such as "2025-11-15T09:16:00Z"."""
    days, rest = divmod(instant, DAY)
    seconds, micros = divmod(rest, SECOND)
    year, month, day = _date(days)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{year:04}-{month:02}-{day:02}T{clock}{fraction}Z"


def _date(days: int) -> tuple[int, int, int]:
    """Return the Gregorian date of a day counted from 1970-01-01.

    Years are taken to begin in March, so that the leap day is the last day of a year; then the
    months are a line (153 days in every five), and an era of 400 years has a fixed length.
    """
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * march_month + 2) // 5 + 1
    month = march_month + 3 if march_month < 10 else march_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day
