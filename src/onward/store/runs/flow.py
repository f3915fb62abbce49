"""Which runs of limited flow are claimed: the most urgent, as far as the limits leave room.

How many runs of a key are running is counted while the row of its limit is held, so two who claim
at once never take more than one of them could have. Nothing else is kept: a run counts for as long
as it is running, also after its worker vanished, until another has taken it over and ended it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from onward.core.run import MAX_CRASHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.core.instant import Instant
    from onward.core.run import Rooms

MAX_RIPEN = 500
"""How many runs are made ready at a time that have a flow key and are due."""


class Candidate(NamedTuple):
    """A run that may be claimed if its key has room."""

    uid: str
    priority: int
    due: Instant
    key: str
    crashes: int = 0


def pick_suspects(
    candidates: Sequence[Candidate], rooms: Mapping[str, int], suspects: Rooms
) -> list[Candidate]:
    """Return the suspects to claim: some of the first number of crashes that has any."""
    for crashes, room in suspects:
        these = [run for run in candidates if min(run.crashes, MAX_CRASHES) == crashes]
        taken = pick(these, rooms, room)
        if taken:
            return taken
    return []


def pick(candidates: Iterable[Candidate], rooms: Mapping[str, int], limit: int) -> list[Candidate]:
    """Return the runs to claim, the most urgent first; there is room for any part of them.

    Args:
        candidates: Ready runs, each once.
        rooms: How many more runs of each key may be running; a key that is not here has no limit.
        limit: How many runs are wanted in all.
    """
    taken: list[Candidate] = []
    used: Counter[str] = Counter()
    for run in sorted(candidates, key=lambda run: (-run.priority, run.due)):
        if len(taken) >= limit:
            break
        if used[run.key] < rooms.get(run.key, limit):
            used[run.key] += 1
            taken.append(run)
    return taken
