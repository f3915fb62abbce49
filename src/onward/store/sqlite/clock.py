"""The clock of a SQLite store: `core.file_time` applied to a file that many processes share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from onward.core.file_time import TOLERATED, Mark, learned, moved, must_keep, time_at
from onward.core.instant import MINUTE, SECOND, show
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock

WARN_EVERY: Duration = 10 * MINUTE


class SavedTime(NamedTuple):
    """The time stored in the file: the latest that was saved, and how often it was reset."""

    at: Instant
    resets: int


class FileClock:
    """The clock of one file. All threads of a process share it."""

    def __init__(self, clock: Clock, where: str = ":memory:") -> None:
        self._clock = clock
        self._where = where
        self._mark: Mark | None = None
        self._kept = SavedTime(0, 0)
        self._lock = threading.Lock()
        self._warned_at: int | None = None

    @property
    def resets(self) -> int:
        """How often the time was reset, as far as this process knows."""
        return self._kept.resets

    def now(self) -> Instant:
        """Return the file's time; never less than before, unless it was reset."""
        with self._lock:
            wall, monotonic = self._clock.wall(), self._clock.monotonic()
            before = self._mark
            if before is None:
                self._mark = Mark(wall, monotonic)
                return wall
            now = time_at(before, wall=wall, monotonic=monotonic)
            self._mark = moved(before, wall=wall, monotonic=monotonic)
        if now - wall > TOLERATED:
            self._warn_behind(now - wall, monotonic)
        elif (jump := now - before.at - (monotonic - before.read_at)) > TOLERATED:
            emit("clock.jumped", file=self._where, jump=_rounded(jump))
        return now

    def wall(self) -> Instant:
        """Return the file's time, as a `Clock` does."""
        return self.now()

    def monotonic(self) -> int:
        """Return microseconds since some fixed point."""
        return self._clock.monotonic()

    def learn(self, found: SavedTime) -> None:
        """Adopt the time in the file: another process may be ahead, or have reset it."""
        with self._lock:
            if found.resets < self._kept.resets:
                return  # a reader's snapshot from before the reset
            wall, monotonic = self._clock.wall(), self._clock.monotonic()
            if self._mark is None or found.resets > self._kept.resets:
                self._mark = moved(Mark(found.at, monotonic), wall=wall, monotonic=monotonic)
                self._kept = found
            else:
                self._mark = learned(self._mark, found.at, wall=wall, monotonic=monotonic)
                self._kept = max(self._kept, found, key=_age)

    def due(self) -> SavedTime | None:
        """Return what should be written to the file with this commit, if anything."""
        now, wall = self.now(), self._clock.wall()
        is_due = must_keep(self._kept.at, now, wall=wall)
        return SavedTime(now, self._kept.resets) if is_due else None

    def keep(self, kept: SavedTime) -> None:
        """Note the time that a commit has written."""
        with self._lock:
            self._kept = max(self._kept, kept, key=_age)

    def _warn_behind(self, behind: Duration, monotonic: int) -> None:
        if self._warned_at is None or monotonic - self._warned_at >= WARN_EVERY:
            self._warned_at = monotonic
            emit("clock.behind", file=self._where, behind=_rounded(behind))


def _age(kept: SavedTime) -> tuple[int, Instant]:
    return kept.resets, kept.at


def _rounded(length: Duration) -> str:
    return show(length // SECOND * SECOND)
