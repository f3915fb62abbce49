"""How many runs that may have taken their workers down a worker executes at once.

A run is suspect if workers vanished with it and it has written nothing since. The more often that
happened, the fewer suspects are together, so that an innocent run soon gets on without the one that
crashes. With four crashes a run is the only suspect of its worker: the fifth is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_CRASHES = 5
"""A run fails with this many crashes."""

TOGETHER = {2: 16, 3: 4, 4: 1}
"""How many suspects a worker executes at once, by the crashes of the one that has most."""

SUSPECT_AT = min(TOGETHER)

Rooms: TypeAlias = tuple[tuple[int, int], ...]
"""How many runs may be taken, by their crashes; those of one claim all have the same number."""


def suspect(crashes: int) -> bool:
    """Return whether a run may have taken its workers down."""
    return crashes >= SUSPECT_AT


def rooms_beside(held: Iterable[int], limit: int) -> Rooms:
    """Return how many suspects a worker may take that executes runs with so many crashes.

    Runs that are to be ended come first, and are not executed; then those with few crashes, of
    which most can be taken.

    Args:
        held: The crashes of the runs that it executes.
        limit: How many runs it wants at most.
    """
    suspects = [crashes for crashes in held if suspect(crashes)]
    most = min((TOGETHER[crashes] for crashes in suspects), default=max(TOGETHER.values()))
    rooms = [
        (crashes, max(0, min(limit, min(most, together) - len(suspects))))
        for crashes, together in sorted(TOGETHER.items())
    ]
    return ((MAX_CRASHES, limit), *rooms)


def rooms_after(rooms: Rooms, taken: Iterable[int]) -> Rooms:
    """Return what is left of the rooms once runs with so many crashes were taken."""
    suspects = [min(crashes, MAX_CRASHES) for crashes in taken if suspect(crashes)]
    if not suspects:
        return rooms
    return tuple(
        (crashes, room - len(suspects)) for crashes, room in rooms if crashes == suspects[0]
    )


ONE: Rooms = rooms_beside((), 1)
"""One suspect at most."""
