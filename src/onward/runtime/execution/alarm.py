"""The timer that wakes a run in memory when the next of its waits is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.runtime.execution.host import Host


class Alarm:
    """Calls back at one time of the database.

    It refers to nothing that it wakes unless a time is set: runs are freed without a collector.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.timer: asyncio.TimerHandle | None = None

    def set(self, due: Instant | None, wake: Callable[[], None]) -> None:
        """Call back at this time instead of the one set before."""
        self.cancel()
        if due is not None:
            seconds = max(0, due - self._host.now()) / SECOND
            loop, context = self._host.loop, self._host.context
            self.timer = loop.call_later(seconds, wake, context=context)

    def cancel(self) -> None:
        """Do not call back."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
