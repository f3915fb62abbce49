"""Whose turn it is on a worker's event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.telemetry.scope import RunScope


class LoopMonitor:
    """The turns that bodies have on one event loop, one after the other.

    Each run writes here as its turn begins and ends; a thread that watches reads it at any time.
    No clock is read: a turn is seldom longer than it takes to read one a few times.
    """

    __slots__ = ("number", "scope")

    def __init__(self) -> None:
        self.number = 0
        """How many turns have begun."""
        self.scope: RunScope | None = None
        """The run that has its turn, if it is to be watched."""

    def take(self, scope: RunScope | None, turn: Callable[[], None]) -> None:
        """Let a run have its turn."""
        self.number += 1
        self.scope = scope
        try:
            turn()
        finally:
            self.scope = None
