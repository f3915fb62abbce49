"""Which body is running on a worker's event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.telemetry.scope import RunScope


class WatchedRun(Protocol):
    """A run whose body is running."""

    scope: RunScope

    @property
    def is_replaying(self) -> bool:
        """Whether the body repeats what history has, which may take long."""
        ...


class LoopMonitor:
    """Notes which body is running; a thread that watches for blocking code reads it at any time.

    No clock is read: most bodies run for less time than it takes to read one a few times.
    """

    __slots__ = ("number", "running")

    def __init__(self) -> None:
        self.number = 0
        """How often a body has begun to run."""
        self.running: WatchedRun | None = None
        """The run whose body is running."""

    def run(self, running: WatchedRun, code: Callable[[], None]) -> None:
        """Run the code of a body."""
        self.number += 1
        self.running = running
        try:
            code()
        finally:
            self.running = None
