"""The time of a SQLite store, which has no clock of its own: it never goes back.

It is the machine's clock, or the latest time this file has ever seen if that is later. So when
somebody sets the clock back, time stands still until the clock has caught up: a timer is late then,
but never early, and no lease seems to have run out.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.core.ports import Clock

PERSIST_EVERY = 1_000_000
"""The mark is written with the first commit of every new second, and when the file is closed."""


class HighWater:
    """A clock that never goes back: it remembers the latest instant. All threads share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mark = 0
        self._kept = 0
        self._lock = threading.Lock()
        self.commits = 0
        """How often this process has written."""

    def now(self) -> Instant:
        """Return the instant now; never less than ever before."""
        with self._lock:
            self._mark = max(self._mark, self._clock.wall())
            return self._mark

    def wall(self) -> Instant:
        """Return the instant now, to those who only know a clock."""
        return self.now()

    def monotonic(self) -> int:
        """Return microseconds since some fixed point."""
        return self._clock.monotonic()

    def learn(self, kept: Instant) -> None:
        """Take over the mark that is kept in the file: another process may be ahead."""
        with self._lock:
            self._kept = max(self._kept, kept)
            self._mark = max(self._mark, kept)

    def due(self) -> Instant | None:
        """Return the mark if it should be written to the file now."""
        now = self.now()
        if now - self._kept < PERSIST_EVERY:
            return None
        self._kept = now
        return now
