"""The time of a store without a clock of its own: a SQLite file.

It follows the machine's clock as long as that goes forward. When the clock is set back, the file's
time neither goes back nor stands still: it goes on at half speed until the clock has caught up. So
a timer is late then, never early; nothing freezes; and a wrong clock heals by itself. A file whose
time is a day ahead is right again after two days, or at once when an operator resets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant

SLOWDOWN = 2
"""How many times slower than real time a file's time goes while it is ahead of the clock."""

KEEP_EVERY: Duration = SECOND
"""How old the time that is kept in the file may get while the clock goes forward."""

TOLERATED: Duration = 5 * SECOND
"""A difference between a file's time and the machine's clock that is not worth a warning."""


class Mark(Value):
    """The file's time at one reading of the monotonic clock, in this process."""

    at: Instant
    read_at: int


def time_at(mark: Mark, *, wall: Instant, monotonic: int) -> Instant:
    """Return the file's time now."""
    return max(wall, mark.at + max(0, monotonic - mark.read_at) // SLOWDOWN)


def moved(mark: Mark, *, wall: Instant, monotonic: int) -> Mark:
    """Return the mark to count from after a look at both clocks.

    A mark ahead of the clock stays as it is: a new one for each look would lose fractions.
    """
    is_behind = wall < time_at(mark, wall=wall, monotonic=monotonic)
    return mark if is_behind else Mark(wall, monotonic)


def learned(mark: Mark, kept: Instant, *, wall: Instant, monotonic: int) -> Mark:
    """Return the mark after reading the time that is kept in the file: others may be ahead."""
    is_ahead = kept > time_at(mark, wall=wall, monotonic=monotonic)
    return Mark(kept, monotonic) if is_ahead else mark


def must_keep(kept: Instant, now: Instant, *, wall: Instant) -> bool:
    """Return whether the time is to be written to the file with the next commit.

    While it is ahead of the clock no other process can know it from anywhere else.
    """
    return now > kept if now > wall else now - kept >= KEEP_EVERY
