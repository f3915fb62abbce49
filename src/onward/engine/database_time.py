"""The database's time, as a process knows it between two answers.

An answer says what time it was at some moment between its request and its arrival. So it bounds how
far the database's clock is from the machine's steady one. What was believed stays while it is
within those bounds; if it is not, the process follows, forward and back. The clock was set, or
another database has taken over, if those bounds do not meet those of the answers before. An answer
to a question that was under way when the process last followed may be from before that, so it
changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.clock_steps import STEP

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock


class DatabaseTime:
    """The database's time, or a little less.

    Args:
        clock: A steady clock, which also counts while the machine is suspended.
        stepped: Called with the change when the clock of the database was set by 2 s or more.
    """

    def __init__(self, clock: Clock, stepped: Callable[[Duration], None]) -> None:
        self._clock = clock
        self._stepped = stepped
        self._ahead: Duration | None = None
        self._ahead_max: Duration = 0
        self._followed_at = 0

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        return self._clock.monotonic() + (self._ahead or 0)

    def latest(self) -> Instant:
        """Return the database's time, or a little more."""
        return self._clock.monotonic() + self._ahead_max

    def learn(self, at: Instant, asked: int) -> None:
        """Learn from an answer that arrives now and was asked for at `asked`.

        Args:
            at: The database's time when it answered.
            asked: What the steady clock said when it was asked.
        """
        now, before, before_max = self._clock.monotonic(), self._ahead, self._ahead_max
        lowest, highest = at - now, at - asked
        if before is None:
            self._ahead, self._ahead_max = lowest, highest
        elif asked >= self._followed_at:
            is_set = lowest > before_max or highest < before
            self._ahead_max = highest if is_set else min(before_max, highest)
            if lowest <= before <= highest:
                return
            self._ahead, self._followed_at = lowest, now
            step = max(0, lowest - before_max) if before < lowest else highest - before
            if abs(step) >= STEP:
                self._stepped(step)
