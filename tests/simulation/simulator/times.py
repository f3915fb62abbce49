"""The clocks of a simulated world: one of each machine, and one of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.store.sqlite.clock import FileClock
from onward.testing.clock import EPOCH

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.store.sqlite.clock import SavedTime
    from onward.testing.clock import VirtualClock


class Skewed:
    """The clock of a machine that is ahead of the others, or behind."""

    def __init__(self, clock: Clock, ahead: Duration) -> None:
        self._clock = clock
        self._ahead = ahead

    def wall(self) -> Instant:
        """Return the instant now, as this machine has it."""
        return self._clock.wall() + self._ahead

    def monotonic(self) -> int:
        """Return microseconds since some fixed point."""
        return self._clock.monotonic()


class ServerTime(FileClock):
    """The time of a database server: its own clock, which goes back when it is set back."""

    def now(self) -> Instant:
        """Return the instant now."""
        return self._clock.wall()

    def learn(self, found: SavedTime) -> None:
        """Do nothing: a server takes its time from no file."""

    def due(self) -> None:
        """Say that there is nothing to write to a file."""


class Steps:
    """By how much clocks were put forward and back.

    Args:
        clock: The clock of the machines, which in some worlds is the database's, too.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.forward: Duration = 0
        """By how much, in all."""
        self.back: Duration = 0

    def step(self, seconds: float) -> None:
        """Put the clock forward, or back."""
        way = round(seconds * SECOND)
        if way > 0:
            self.forward += way
            self._clock.jump(way)
        else:
            self.back -= way
            self._clock.set_back(-way)

    @property
    def are_none(self) -> bool:
        """Whether no clock was put forward or back."""
        return not self.forward and not self.back

    @property
    def steady(self) -> Instant:
        """The time, had the clock never been set back."""
        return EPOCH + self._clock.monotonic() + self.forward
