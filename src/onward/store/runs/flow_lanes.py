"""Lanes: what is ready in a queue with one priority, one key and one workflow.

They are walked from the key that had its turn last, until enough have room, so a claim reads a
few of them however many keys wait. If those have no room, there may be thousands more of the kind:
these are passed by in one statement, which reads the index alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.flow import BEGUN
from onward.core.lease import MAX_AHEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward.store.database import Tx


MAX_LANES: Final = 1000
"""How many lanes are read at a time at most."""
MIN_RUNS: Final = 4000
MAX_RUNS: Final = 16_000
"""How many neighbouring runs are passed by at a time."""
RUNS_A_KEY: Final = 16
"""A step to the next key takes as long as passing by so many runs."""
UNLIMITED: Final = 1 << 62
_LAST: Final = chr(0x10FFFF)
"""Sorts after every key."""


class FlowLane(NamedTuple):
    """Runs of a key and a workflow that are ready in a queue with one priority.

    `first` is the rank of the first of them, or a lower one.
    """

    key: str
    name: str
    first: int = BEGUN


class UsualLimit(NamedTuple):
    """How many runs of every key may count that has no limits of its own, and whether they hold."""

    most: int = UNLIMITED
    holds_open: bool = False


class LaneReader:
    """Reads the lanes of a queue with one priority, in the order of the index of ready runs."""

    def __init__(
        self, tx: Tx, queue: str, priority: int, usual: Callable[[], Awaitable[UsualLimit]]
    ) -> None:
        self._tx = tx
        self._level = {"queue": queue, "priority": priority}
        self._usual = usual
        self._runs = 0
        """How many runs are passed by next; 0: lanes are read one by one."""

    async def read(
        self, at: FlowLane, until: str | None, most: int
    ) -> tuple[list[FlowLane], FlowLane | None]:
        """Return lanes that follow a position, and the next position; None if these are the last.

        Args:
            at: The position: after this lane, or at the first lane of a key if it has no name.
            until: The key at which to stop.
            most: How many lanes are read one by one.
        """
        if self._runs and not at.name:
            given = {**self._level, "key": at.key, "limit": self._runs}
            [[last, runs, keys]] = await self._tx.fetch("next_keys", **given)
            is_end = runs < self._runs
            if is_end or (keys > 1 and runs <= keys * RUNS_A_KEY):
                self._runs = min(4 * self._runs, MAX_RUNS)
                return await self._read_range(at.key, None if is_end else last, until)
        given = {**self._level, "key": at.key, "name": at.name, "limit": most, "until": until}
        rows = await self._tx.fetch("lanes_of_level", **given)
        lanes = [FlowLane(row[0], row[1], row[3]) for row in rows if until is None or row[2]]
        if len(lanes) < most:
            return lanes, None
        self._runs = MIN_RUNS  # if more are wanted, these had no room, and others may have none
        return _whole_keys(lanes)

    async def _read_range(
        self, first: str, last: str | None, until: str | None
    ) -> tuple[list[FlowLane], FlowLane | None]:
        """Return lanes of the keys before `last`, without those that have no room for certain."""
        is_end = last is None or (until is not None and last >= until)
        usual = await self._usual()
        beyond = (until or _LAST) if is_end else last
        rows = await self._tx.fetch(
            "open_lanes",
            **self._level,
            key=first,
            last=beyond,
            most=usual.most,
            holding=int(usual.holds_open),
            ahead=MAX_AHEAD,
            limit=MAX_LANES,
        )
        lanes = [FlowLane(row[0], row[1]) for row in rows]
        if len(lanes) == MAX_LANES:
            return _whole_keys(lanes)
        return lanes, None if is_end or last is None else FlowLane(last, "")


def _whole_keys(lanes: list[FlowLane]) -> tuple[list[FlowLane], FlowLane]:
    """Leave out the last key, which may have more lanes, unless it is the only one."""
    last = lanes[-1].key
    whole = [lane for lane in lanes if lane.key != last]
    return (whole, FlowLane(last, "")) if whole else (lanes, lanes[-1])


async def walk(
    reader: LaneReader, key: str, wanted: int
) -> AsyncIterator[tuple[list[FlowLane], bool]]:
    """Walk once around the lanes of a queue with one priority, beginning with a key.

    Yields some lanes at a time, and whether these are all there are. At first these are as many as
    runs are wanted, since each lane that has room gives at least one.
    """
    most = min(wanted + 2, MAX_LANES)
    at, is_wrapped, is_first = FlowLane(key, ""), key == "", True
    pending: list[FlowLane] = []
    while True:
        until = key if is_wrapped and key else None
        lanes, following = await reader.read(at, until, most)
        if following is not None:
            yield pending + lanes, False
            pending, is_first, at = [], False, following
            most = min(4 * most, MAX_LANES)
        elif is_wrapped:
            yield pending + lanes, is_first
            return
        else:
            pending, is_wrapped, at = lanes, True, FlowLane("", "")
