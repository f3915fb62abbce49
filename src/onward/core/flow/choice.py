"""Which runs are claimed: by priority, then key by key in turn, then those that have begun.

Keys take turns. In its turn a key gets as many runs as its weight says, so keys with endless work
share claims by their weights, and a key that was idle has nothing saved up: it has its next turn,
like any other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.flow.limits import FlowId, FlowKind, Room, take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Instant

BEGUN: Final = 0
"""The rank of a run that was claimed before."""
CHILD: Final = 1
"""The rank of a child that was not."""
NEW: Final = 2
"""The rank of any other run: children come before it, so that what has begun gets done."""


def rank(fence: int, parent: str | None) -> int:
    """Return the place of a run among those of one priority and key."""
    if fence > 0:
        return BEGUN
    return NEW if parent is None else CHILD


class Candidate(NamedTuple):
    """A run that is claimed if its queue, its workflow and its key have room."""

    uid: str
    priority: int
    due: Instant
    queue: str
    name: str
    key: str
    rank: int = NEW
    crashes: int = 0

    @property
    def is_begun(self) -> bool:
        """Whether it was claimed before."""
        return self.rank == BEGUN

    @property
    def flows(self) -> tuple[FlowId, ...]:
        """What it is limited by."""
        found = (FlowId(FlowKind.QUEUE, self.queue), FlowId(FlowKind.WORKFLOW, self.name))
        return (*found, FlowId(FlowKind.KEY, self.key, self.queue)) if self.key else found


class KeyLine(NamedTuple):
    """The runs of a key, in the order in which they are claimed."""

    key: str
    weight: int
    runs: Sequence[Candidate]


class Turn(NamedTuple):
    """The key that had its turn last, and how many runs it got in it."""

    key: str = ""
    used: int = 0


def served(turn: Turn, key: str, weight: int) -> Turn:
    """Return the turn after a run of a key was claimed."""
    if key == turn.key and turn.used < weight:
        return Turn(key, turn.used + 1)
    return Turn(key, 1)


def choose(
    lines: Sequence[KeyLine], rooms: dict[FlowId, Room], limit: int, turn: Turn, *, is_all: bool
) -> list[Candidate]:
    """Return the runs to claim, in the order in which they are; there is room for any part of them.

    Args:
        lines: The keys, in the order of their turns.
        rooms: How much room there is; what is chosen takes its part of it.
        limit: How many runs are wanted.
        turn: The turn before.
        is_all: Whether these are all keys; otherwise each has one turn, and others follow.
    """
    taken: list[Candidate] = []
    left = {line.key: deque(sorted(line.runs, key=_place)) for line in lines}
    weights = {line.key: line.weight for line in lines}
    order = [line.key for line in lines]
    quota = dict(weights)
    if turn.key in quota:
        quota[turn.key] -= turn.used
        if quota[turn.key] <= 0:  # its turn is over
            order = [key for key in order if key != turn.key] + [turn.key] * is_all
            quota[turn.key] = weights[turn.key]
    while order and len(taken) < limit:
        for key in order:
            most = min(quota[key], limit - len(taken))
            taken += _take(left[key], rooms, most)
            quota[key] = weights[key]
        order = [key for key in order if left[key]] if is_all else []
    return taken


def left_after(lines: Sequence[KeyLine], taken: Sequence[Candidate]) -> list[KeyLine]:
    """Return the keys that have more runs than were taken, with those that were not."""
    uids = {run.uid for run in taken}
    kept = ([run for run in line.runs if run.uid not in uids] for line in lines)
    return [line._replace(runs=runs) for line, runs in zip(lines, kept, strict=True) if runs]


def _place(run: Candidate) -> tuple[int, int, str]:
    return run.rank, run.due, run.uid


def _take(runs: deque[Candidate], rooms: dict[FlowId, Room], most: int) -> list[Candidate]:
    """Take the first runs for which there is room, and drop those for which there is none."""
    taken: list[Candidate] = []
    while runs and len(taken) < most:
        run = runs.popleft()
        if take(rooms, run.flows, begun=run.is_begun):
            taken.append(run)
    return taken
