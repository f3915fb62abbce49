"""Lanes: what is ready in a queue with one priority, one key and one workflow.

They are walked from the key that had its turn last, until enough have room, so a claim reads a
few of them however many keys wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store.database import Tx


MAX_LANES: Final = 1000
"""How many lanes are read at a time at most."""


class FlowLane(NamedTuple):
    """Runs of a key and a workflow that are ready in a queue with one priority."""

    key: str
    name: str


async def walk(
    tx: Tx, queue: str, priority: int, key: str, wanted: int
) -> AsyncIterator[tuple[list[FlowLane], bool]]:
    """Walk once around the lanes of a queue with one priority, beginning with a key.

    Yields some lanes at a time, and whether these are all there are. At first these are as many as
    runs are wanted, since each lane that has room gives at least one. They are more each time, so
    that few reads pass by many lanes without room.
    """
    most = min(wanted + 1, MAX_LANES)
    at, is_wrapped, is_first = FlowLane(key, ""), key == "", True
    pending: list[FlowLane] = []
    while True:
        until = key if is_wrapped and key else None
        rows = await tx.fetch(
            "lanes_of_level",
            queue=queue,
            priority=priority,
            key=at.key,
            name=at.name,
            limit=most,
            until=until,
        )
        lanes = [FlowLane(row[0], row[1]) for row in rows if until is None or row[2]]
        if len(lanes) == most:
            yield pending + lanes, False
            pending, is_first, at = [], False, lanes[-1]
            most = min(4 * most, MAX_LANES)
        elif is_wrapped:
            yield pending + lanes, is_first
            return
        else:
            pending, is_wrapped, at = lanes, True, FlowLane("", "")
