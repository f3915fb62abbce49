"""A callback of a RunLoop: one that is ready, or a timer."""

from __future__ import annotations

import asyncio
import asyncio.futures
from typing import TYPE_CHECKING, Any

from onward.core.value import Struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

END_OF_SLEEP = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined] # asyncio's
"""What asyncio calls when a sleep is over."""


class Handle(Struct):
    """A callback in the queue of a RunLoop, or a timer."""

    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context
    time: float = 0.0
    """The time of a timer."""
    is_absolute: bool = False
    """Whether the time of a timer is fixed, however late the timer begins."""
    is_cancelled: bool = False
    _on_cancel: Callable[[], None] | None = None

    def on_cancel(self, then: Callable[[], None]) -> None:
        """Call `then` when a timer is cancelled before its time."""
        self._on_cancel = then

    def cancel(self) -> None:
        """Do not call it."""
        if not self.is_cancelled:
            self.is_cancelled = True
            then, self._on_cancel = self._on_cancel, None
            if then is not None:
                then()

    def come(self) -> None:
        """Take note that the time of a timer has come: cancelling it is no news any more."""
        self._on_cancel = None

    def cancelled(self) -> bool:
        """Say whether it was cancelled."""
        return self.is_cancelled

    def when(self) -> float:
        """Return the time of a timer."""
        return self.time

    @property
    def is_sleep(self) -> bool:
        """Say whether the body sleeps until then, and does not just set a limit."""
        return self.callback is END_OF_SLEEP

    def future(self) -> asyncio.Future[Any] | None:
        """Return the future that a sleeper waits for."""
        first = self.args[0] if self.args else None
        return first if isinstance(first, asyncio.Future) else None
