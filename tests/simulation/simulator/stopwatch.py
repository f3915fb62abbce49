"""How long the waits of bodies really took, against what their code asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration
    from onward.testing.clock import VirtualClock

MAX_LATE: Duration = 2 * SECOND
"""How long after a body was handed its last record its wait may be asked for and still count from
that record. Answers take that long on slow lines."""


class Asked(NamedTuple):
    """A wait that the code of a run asked for."""

    at: int
    """When, in time that never jumps."""
    length: Duration
    forward: Duration
    """By how much the clocks had been put forward until then."""


class Stopwatch:
    """Measures waits in elapsed time, which no clock setting changes.

    A body says which wait it is about to make, and when it is over. Bodies are replayed, so both
    are said again and again: what counts is the first time that a wait was asked for.

    Args:
        clock: Tells how much time has really passed.
        forward: Tells by how much clocks were put forward so far: a wait may be that much shorter.
        accuse: Is called with a wait that was too short.
    """

    def __init__(
        self,
        clock: VirtualClock,
        forward: Callable[[], Duration],
        accuse: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._forward = forward
        self._accuse = accuse
        self._asked: dict[str, Asked] = {}

    def begin(self, wait: str, seconds: float) -> None:
        """Take note that a wait begins."""
        length = round(seconds * SECOND)
        self._asked.setdefault(wait, Asked(self._clock.monotonic(), length, self._forward()))

    def end(self, wait: str) -> None:
        """Take note that a wait is over, and compare."""
        asked = self._asked.get(wait)
        if asked is None:
            return
        took = self._clock.monotonic() - asked.at
        allowed = asked.length - MAX_LATE - (self._forward() - asked.forward)
        if took < allowed:
            self._accuse(f"{wait}: {asked.length / SECOND} s took {took / SECOND} s")
