"""Limits by a key: how many runs may be running at a time, and how often a call may be made.

A claim counts the running runs of a key while it has the row of the limit locked, so concurrent
claims never exceed it. Nothing else is stored: a run counts for as long as it is running, even when
its worker has vanished, until another worker has taken it over and ended it. A rate is kept as the
time at which the next call may start.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from onward.core.lease import MAX_AHEAD
from onward.core.run import MAX_CRASHES
from onward.store.runs.fencing import check_owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.core.instant import Duration, Instant
    from onward.core.run import Rooms
    from onward.model.runs import RunOwner
    from onward.store.database import Tx

MAX_DUE = 500
"""How many due runs with a flow key are made ready at a time."""


async def set_limit(tx: Tx, key: str, max_running: int, owner: RunOwner | None = None) -> None:
    """Let at most `max_running` runs of a flow key be running at a time.

    Raises:
        LeaseLost: an owner does this for a run that it does not have any more.
    """
    await check_owner(tx, owner)
    await tx.fetch("set_limit", key=key, max_running=max_running)


async def has_limit(tx: Tx, key: str, max_running: int) -> bool:
    """Return whether that is the limit of a flow key."""
    rows = await tx.fetch("limit_of", key=key)
    return bool(rows) and bool(rows[0][0] == max_running)


async def take_turn(tx: Tx, owner: RunOwner, key: str, interval: Duration) -> Duration:
    """Reserve the next call under a rate for a run; return how long to wait before making it.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """
    await check_owner(tx, owner)
    rows = await tx.fetch("take_turn", key=key, interval=interval, ahead=MAX_AHEAD)
    return max(0, int(rows[0][0]))


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
