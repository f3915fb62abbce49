"""Time limits of steps, kept cheaply.

A timer per step would cost more than most of what a step costs. Nearly all limits are minutes away
and never reached, so those are looked at once a second, all together; only short ones get a timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

EXACT_BELOW_SECONDS = 10.0
LOOK_SECONDS = 1.0


class Deadlines:
    """Calls back for everything that is not done in time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._far: dict[asyncio.Task[None], tuple[float, Callable[[], None]]] = {}
        self._look: asyncio.TimerHandle | None = None

    def watch(self, task: asyncio.Task[None], seconds: float, expired: Callable[[], None]) -> None:
        """Call `expired` if the task is not done within that time."""
        if seconds < EXACT_BELOW_SECONDS:
            timer = self._loop.call_later(seconds, expired)
            task.add_done_callback(lambda _: timer.cancel())
            return
        self._far[task] = (self._loop.time() + seconds, expired)
        task.add_done_callback(self._forget)
        if self._look is None:
            self._look = self._loop.call_later(LOOK_SECONDS, self.tick)

    def tick(self) -> None:
        """Look once at all that is far."""
        now = self._loop.time()
        for deadline, expired in list(self._far.values()):
            if deadline <= now:
                expired()
        self._look = self._loop.call_later(LOOK_SECONDS, self.tick) if self._far else None

    def close(self) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._far.pop(task, None)
