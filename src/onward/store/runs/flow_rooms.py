"""How much room the limits of queues, workflows and keys have, for a claim that has locked them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from onward.core.flow import BEGUN, NEW, Candidate, FlowId, FlowKind, Hold, room_of
from onward.model.flow import EVERY_KEY, FlowRow, in_force, read_starts
from onward.store.runs.flow_lanes import UsualLimit
from onward.store.runs.flows import add_queues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.flow import FlowLimits, Room
    from onward.core.instant import Instant
    from onward.model.claims import Wanted
    from onward.model.flow import DeclaredLimits
    from onward.store.database import Tx
    from onward.store.runs.flow_lanes import FlowLane

NONE: Final = -1
"""Below every rank: no run has room."""


class FlowRooms:
    """The limits of a claim: their rows, which it has locked, and how much room they have."""

    def __init__(self, tx: Tx, wanted: Wanted) -> None:
        self._tx = tx
        self._wanted = wanted
        self.rows: dict[FlowId, FlowRow] = {}
        self.rooms: dict[FlowId, Room] = {}
        self.limits_of_keys: dict[FlowId, FlowLimits] = {}
        self.now: Instant = 0
        self._counted: dict[Hold, Counter[FlowId]] = {hold: Counter() for hold in Hold}
        self._usual: dict[str, tuple[DeclaredLimits, DeclaredLimits]] = {}

    async def lock(self) -> None:
        """Lock the rows of the queues and workflows of this claim."""
        await self._read_rows()
        queues = self._wanted.queues
        missing = [name for name in queues if FlowId(FlowKind.QUEUE, name) not in self.rows]
        if missing:
            await add_queues(self._tx, missing)
            await self._read_rows()

    async def _read_rows(self) -> None:
        for kind, given in (("queue", self._wanted.queues), ("workflow", self._wanted.names)):
            names = self._tx.array(given)
            for row in await self._tx.fetch("flows_to_claim", kind=kind, names=names):
                found = FlowRow._make(row[:-1])
                self.rows[found.id], self.now = found, row[-1]

    async def count(self) -> None:
        """Count what is running and what holds its place, and find how much room there is."""
        running, held = self._counted[Hold.RUNNING], self._counted[Hold.OPEN]
        for queue, name, count in await self._tx.fetch("count_running"):
            for flow in (FlowId(FlowKind.QUEUE, queue), FlowId(FlowKind.WORKFLOW, name)):
                running[flow] += count
                held[flow] += count
        for queue, name, key, count in await self._tx.fetch("count_holding"):
            for flow in Candidate("", 0, 0, queue, name, key).flows:
                held[flow] += count
        for flow, row in self.rows.items():
            if row.limits.restrict:
                self.rooms[flow] = self._room(flow, row.limits, row.starts)

    def _room(self, flow: FlowId, limits: FlowLimits, starts: str) -> Room:
        return room_of(limits, self._counted[limits.hold][flow], read_starts(starts), self.now)

    async def usual_limit(self, queue: str) -> UsualLimit:
        """Return how many runs of a key of a queue may count, unless it has limits of its own."""
        if queue not in self._usual:
            await self.add_keys(queue, [])
        limits = in_force(*self._usual[queue])
        if limits.max is None:
            return UsualLimit()
        return UsualLimit(limits.max, limits.hold is Hold.OPEN)

    async def add_keys(self, queue: str, keys: list[str]) -> None:
        """Find how much room keys have."""
        given = {"queue": queue, "keys": self._tx.array([*keys, EVERY_KEY])}
        rows = await self._tx.fetch("keys_to_claim", **given)
        found = {row[0]: FlowRow._make(row[2:]) for row in rows if row[2] is not None}
        every = found.get(EVERY_KEY, FlowRow("key", queue, EVERY_KEY))
        shared = self._usual.setdefault(queue, (every.operator, every.declared))
        usual, wanted = in_force(*shared), set(keys)
        for key, running in ((row[0], row[1]) for row in rows if row[0] in wanted):
            flow, row = FlowId(FlowKind.KEY, key, queue), found.get(key)
            if row is not None:
                self.rows.setdefault(flow, row)
            limits = usual if row is None else in_force(row.operator, row.declared, *shared)
            if limits.restrict and flow not in self.rooms:
                for counted in self._counted.values():
                    counted[flow] += running
                self.rooms[flow] = self._room(flow, limits, "" if row is None else row.starts)
                self.limits_of_keys[flow] = limits

    def weight(self, queue: str, key: str) -> int:
        """Return how many runs a key gets in its turn."""
        row = self.rows.get(FlowId(FlowKind.KEY, key, queue))
        return 1 if row is None else row.weight

    def ranks(self, queue: str, lanes: Sequence[FlowLane]) -> dict[FlowLane, int]:
        """Return the lanes that have room, each with the highest rank of the runs that have."""
        of_queue = self._rank(FlowId(FlowKind.QUEUE, queue))
        names = {
            name: min(of_queue, self._rank(FlowId(FlowKind.WORKFLOW, name)))
            for name in {lane.name for lane in lanes}.intersection(self._wanted.names)
        }
        keys = {
            key: self._rank(FlowId(FlowKind.KEY, key, queue))
            for key in {lane.key for lane in lanes}
        }
        found = {lane: min(names.get(lane.name, NONE), keys[lane.key]) for lane in lanes}
        return {lane: rank for lane, rank in found.items() if rank >= lane.first}

    def _rank(self, flow: FlowId) -> int:
        room = self.rooms.get(flow)
        if room is None or room.fits(begun=False):
            return NEW
        return BEGUN if room.fits(begun=True) else NONE

    def is_closed(self, flow: FlowId) -> bool:
        """Return whether nothing of it can be claimed."""
        return self._rank(flow) == NONE
