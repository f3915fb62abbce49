"""What the ids and random numbers of a body are made of: the same in every replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.beginning import Beginning, read_beginning
from onward.runtime.body.runloop import branch_now

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.model.runs import ClaimedRun


def beginning_of_body(run: ClaimedRun) -> Beginning:
    """Return the beginning that the body of a run receives."""
    if run.beginning is not None:
        return read_beginning(run.beginning)
    return Beginning(None, run.scheduled_at, ((0, run.uid),))


def start_of_body(run: ClaimedRun, begun: Beginning) -> Instant:
    """Return the time at which the body of a run starts."""
    first = begun.started_at
    return run.started_at or run.created_at if first is None else first


class Draws:
    """Counts what a body draws, in each of its branches."""

    def __init__(self, begun: Beginning) -> None:
        self._begun = begun
        self._counts: dict[tuple[str, str], int] = {}

    def draw(self, what: str, position: int) -> str:
        """Return a text that is new for each call.

        Args:
            what: What is drawn.
            position: Up to where the body was handed its history.
        """
        place = branch_now.get(), what
        nth = self._counts[place] = self._counts.get(place, 0) + 1
        return f"{self._begun.seed_at(position)} {place[0]} {what} {nth}"
