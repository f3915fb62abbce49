"""Running bodies with the checks of development."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.runtime.body.body_guard import BodyGuard
from onward.runtime.execution.loop_monitor import LoopMonitor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onward.runtime.execution.loop_monitor import WatchedRun


class DebugMonitor(LoopMonitor):
    """Notes which body is running, and checks what it calls.

    Args:
        allowed: Names of modules in which everything is allowed.
    """

    __slots__ = ("_guard",)

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        super().__init__()
        self._guard = BodyGuard(allowed)

    def run(self, running: WatchedRun, code: Callable[[], None]) -> None:
        """Run the code of a body."""
        super().run(running, partial(self._guard.run, code))


def monitor_for(allowed: Sequence[str] | None) -> LoopMonitor:
    """Return what runs the bodies of a worker: with checks, unless `allowed` is None."""
    return LoopMonitor() if allowed is None else DebugMonitor(allowed)
