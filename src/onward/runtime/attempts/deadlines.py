"""Time limits of steps, kept cheaply.

A timer per step would cost more than most of what a step costs. Nearly all limits are minutes away
and never reached, so those are looked at once a second, all together; only short ones get a timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from contextvars import Context

EXACT_BELOW_SECONDS = 10.0
LOOK_SECONDS = 1.0


class Deadlines:
    """Calls back for everything that is not forgotten in time.

    Args:
        loop: Where the timers are set.
        context: What they run in. Left to themselves they would run in that of a body which asked
            for a step, and keep it in memory.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._near: dict[object, asyncio.TimerHandle] = {}
        self._far: dict[object, tuple[float, Callable[[], None]]] = {}
        self._look: asyncio.TimerHandle | None = None

    def watch(self, what: object, seconds: float, expired: Callable[[], None]) -> None:
        """Call `expired` unless `what` is forgotten within that time."""
        if seconds < EXACT_BELOW_SECONDS:
            self._near[what] = self._later(seconds, expired)
            return
        self._far[what] = (self._loop.time() + seconds, expired)
        if self._look is None:
            self._look = self._later(LOOK_SECONDS, self.tick)

    def forget(self, what: object) -> None:
        """Call back for this no more."""
        if self._far.pop(what, None) is None:
            timer = self._near.pop(what, None)
            if timer is not None:
                timer.cancel()

    def tick(self) -> None:
        """Look once at all that is far."""
        now = self._loop.time()
        for what, (deadline, expired) in list(self._far.items()):
            if deadline <= now:
                del self._far[what]
                expired()
        self._look = self._later(LOOK_SECONDS, self.tick) if self._far else None

    def _later(self, seconds: float, then: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, then, context=self._context)

    def close(self) -> None:
        """Look no more."""
        for timer in (self._look, *self._near.values()):
            if timer is not None:
                timer.cancel()
