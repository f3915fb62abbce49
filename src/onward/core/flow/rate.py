"""Rates: at most so many starts within any period of a given length.

The starts of the last period are remembered in slices of time. A slice counts until all of it is
older than the period, so no period ever has more starts than the rate allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from onward.core.instant import (
    DAY,
    SECOND,
    Duration,  # a rate is stored, and its annotations are read
    duration,
)
from onward.errors import BadInput

if TYPE_CHECKING:
    from onward.core.instant import Instant

SLICES: Final = 32
"""Into how many slices a period is divided; a rate with fewer starts remembers each of them."""

MAX_INTERVAL: Final[Duration] = DAY
"""The longest time between two sends of an effect. All runs share it, so one send delays them."""

MAX_AHEAD: Final[Duration] = SECOND
"""A start that is later than now by more than this was written by a clock that was ahead."""

_RATE = re.compile(r"([1-9][0-9]{0,8})/([0-9]{0,9})(us|ms|[smhdw])", re.ASCII)

Starts: TypeAlias = "tuple[tuple[int, int], ...]"
"""How many starts were in each slice of time, oldest first; a slice is named by its number."""


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """At most `count` starts within any `period`."""

    count: int
    period: Duration

    @property
    def slice_length(self) -> Duration:
        """How long a slice is."""
        return 1 if self.count <= SLICES else max(1, self.period // SLICES)


def read_rate(text: str) -> Rate:
    """Return the rate that a user wrote, such as "10/m", "1/5s" or "100/h".

    Raises:
        BadInput: it is none.
    """
    match = _RATE.fullmatch(str(text))
    if match is None or match[2] == "0" * len(match[2]) != "":
        raise BadInput(f"rate={text!r}", "is not a rate", 'Write "10/m", "1/5s" or "100/h"')
    return Rate(int(match[1]), duration(f"{match[2] or 1}{match[3]}"))


def _counting(rate: Rate, starts: Starts, now: Instant) -> Starts:
    """Return the slices that still count."""
    length = rate.slice_length
    return tuple(
        (number, count)
        for number, count in starts
        if (number + 1) * length > now - rate.period and number * length <= now + MAX_AHEAD
    )


def starts_left(rate: Rate, starts: Starts, now: Instant) -> int:
    """Return how many more starts there may be now."""
    return max(0, rate.count - sum(count for _, count in _counting(rate, starts, now)))


def record_starts(rate: Rate, starts: Starts, now: Instant, count: int) -> Starts:
    """Return what is remembered once there were `count` starts now."""
    kept = dict(_counting(rate, starts, now))
    number = now // rate.slice_length
    kept[number] = kept.get(number, 0) + count
    return tuple(sorted(kept.items()))


def next_start(rate: Rate, starts: Starts, now: Instant) -> Instant:
    """Return when there may be another start: now, or once enough slices count no more."""
    used = 0
    kept = _counting(rate, starts, now)
    over = sum(count for _, count in kept) - rate.count
    for number, count in kept:
        if used > over:
            break
        used += count
        now = (number + 1) * rate.slice_length + rate.period
    return now
