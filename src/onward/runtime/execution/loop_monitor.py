"""Which body is running on a worker's event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.telemetry.scope import RunScope


class LoopMonitor:
    """Notes which body is running; a thread that watches for blocking code reads it at any time.

    No clock is read: most bodies run for less time than it takes to read one a few times.
    """

    __slots__ = ("number", "scope")

    def __init__(self) -> None:
        self.number = 0
        """How often a body has begun to run."""
        self.scope: RunScope | None = None
        """The run whose body is running, if it is to be watched."""

    def run(self, scope: RunScope | None, code: Callable[[], None]) -> None:
        """Run the code of a body."""
        self.number += 1
        self.scope = scope
        try:
            code()
        finally:
            self.scope = None
