"""Time limits of steps, kept cheaply.

A timer per step would cost more than most of what a step costs. Nearly all limits are minutes away
and never reached, so those are looked at once a second, all together; only short ones get a timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context

EXACT_BELOW_SECONDS = 10.0
LOOK_SECONDS = 1.0


class Expiring(Protocol):
    """Something with a time limit."""

    def expire(self) -> None:
        """Take note that the time is over."""
        ...


class Deadlines:
    """Expires everything that is not forgotten in time.

    Args:
        loop: Where the timers are set.
        context: What they run in. By default they would run in that of a body which asked for a
            step, and keep it in memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._near: dict[Expiring, asyncio.TimerHandle] = {}
        self._far: dict[Expiring, float] = {}
        self._look: asyncio.TimerHandle | None = None

    def watch(self, what: Expiring, seconds: float, now: float) -> None:
        """Expire `what` unless it is forgotten within that time; it is `now` on the loop."""
        if seconds < EXACT_BELOW_SECONDS:
            later = self._loop.call_later
            self._near[what] = later(seconds, what.expire, context=self._context)
            return
        self._far[what] = now + seconds
        if self._look is None:
            self._look = self._look_later()

    def forget(self, what: Expiring) -> None:
        if self._far.pop(what, None) is None:
            timer = self._near.pop(what, None)
            if timer is not None:
                timer.cancel()

    def tick(self) -> None:
        """Look once at all that is far."""
        now = self._loop.time()
        for what, deadline in list(self._far.items()):
            if deadline <= now:
                del self._far[what]
                what.expire()
        self._look = self._look_later() if self._far else None

    def _look_later(self) -> asyncio.TimerHandle:
        return self._loop.call_later(LOOK_SECONDS, self.tick, context=self._context)

    def close(self) -> None:
        """Look no more."""
        for timer in (self._look, *self._near.values()):
            if timer is not None:
                timer.cancel()
