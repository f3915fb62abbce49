"""Whether a server that does not answer is slow or unreachable: another connection probes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SILENT_SECONDS = 1.0
"""How long a server may be silent before another connection probes it."""


class Silence:
    """Probes a server that does not answer, and ends the wait if it is unreachable.

    Args:
        clock: Limits the wait.
        ask: Begins to find out whether the server is there.
    """

    def __init__(self, clock: asyncio.Timeout, ask: Callable[[], asyncio.Task[bool]]) -> None:
        self._clock = clock
        self._ask = ask
        self._loop = asyncio.get_running_loop()
        self._look = self._loop.call_later(SILENT_SECONDS, self._begin)
        self._is_over = False
        self.is_told = False
        """Whether the wait was ended because the server is silent."""

    def stop(self) -> None:
        """Stop probing."""
        self._is_over = True
        self._look.cancel()

    def _begin(self) -> None:
        self._ask().add_done_callback(self._answered)

    def _answered(self, asked: asyncio.Task[bool]) -> None:
        if self._is_over:
            return
        if not asked.cancelled() and asked.result():
            self._look = self._loop.call_later(SILENT_SECONDS, self._begin)
        elif not self._clock.expired():
            self.is_told = True
            self._clock.reschedule(self._loop.time())
