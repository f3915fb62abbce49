"""Choosing runs under flow control for a claim, with the rows of their limits locked."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from onward.core.flow import (
    Candidate,
    FlowId,
    FlowKind,
    KeyLine,
    Room,
    Turn,
    choose,
    left_after,
    next_start,
    record_starts,
    served,
    take,
)
from onward.core.run import MAX_CRASHES, SUSPECT_AT
from onward.model.flow import FlowRow, read_starts, write_starts
from onward.store.runs.flow_lanes import LaneReader, walk
from onward.store.runs.flow_rooms import FlowRooms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onward.core.instant import Instant
    from onward.core.run import Rooms as SuspectRooms
    from onward.model.claims import Wanted
    from onward.store.database import Tx
    from onward.store.runs.flow_lanes import FlowLane

MAX_DUE: Final = 500
"""How many due runs under flow control are made ready at a time."""

MAX_TURNS: Final = 16
"""For how many priorities a queue remembers whose turn it is."""


class LaneQuery(NamedTuple):
    """Runs of a lane that are wanted: of a rank or a lower one, and how many."""

    lane: FlowLane
    rank: int
    limit: int


class FlowTx(Protocol):
    """How a database reads the runs of lanes."""

    async def __call__(
        self, queue: str, priority: int, lanes: Sequence[LaneQuery], /
    ) -> list[Candidate]: ...


@dataclass
class FlowClaim:
    """What a claim has locked and counted, and what it has chosen."""

    tx: Tx
    wanted: Wanted
    runs_of_lanes: FlowTx
    chosen: list[Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flows = FlowRooms(self.tx, self.wanted)

    async def lock(self) -> None:
        """Lock the rows of the queues and workflows of this claim."""
        await self.flows.lock()

    # --- choosing --------------------------------------------------------------------------------

    async def choose(self) -> list[Candidate]:
        """Choose runs, the most urgent first; there is room for any part of them."""
        await self.flows.count()
        levels = [
            (-row[0], place, queue)
            for place, queue in enumerate(self.wanted.queues)
            if not self.flows.is_closed(FlowId(FlowKind.QUEUE, queue))
            for row in await self.tx.fetch("levels_of_queue", queue=queue)
        ]
        for below, _, queue in sorted(levels):
            left = self.wanted.limit - len(self.chosen)
            if left <= 0:
                break
            await self._choose_level(queue, -below, left)
        await self._choose_suspects()
        return self.chosen

    async def _choose_level(self, queue: str, priority: int, limit: int) -> None:
        turn = self._turns(queue).get(str(priority), Turn())
        left: dict[str, KeyLine] = {}
        reader = LaneReader(self.tx, queue, priority, lambda: self.flows.usual_limit(queue))
        async for lanes, is_all in walk(reader, turn.key, limit):
            lines = await self._lines(queue, priority, lanes, limit)
            taken = choose(lines, self.flows.rooms, limit, turn, is_all=is_all)
            self.chosen += taken
            limit -= len(taken)
            if limit <= 0 or is_all:
                return
            turn = Turn()
            for line in left_after(lines, taken):
                runs = (*left[line.key].runs, *line.runs) if line.key in left else line.runs
                left[line.key] = line._replace(runs=runs)
        # Each key had its turn, and more runs are wanted.
        self.chosen += choose(list(left.values()), self.flows.rooms, limit, turn, is_all=True)

    async def _lines(
        self, queue: str, priority: int, lanes: Sequence[FlowLane], limit: int
    ) -> list[KeyLine]:
        """Return the runs of lanes that have room, by key."""
        keys = list(dict.fromkeys(lane.key for lane in lanes if lane.key))
        if keys:
            await self.flows.add_keys(queue, keys)
        ranks = self.flows.ranks(queue, lanes)
        weights = {lane.key: self.flows.weight(queue, lane.key) for lane in ranks}
        share = sum(weights.values()) or 1
        wanted = [
            LaneQuery(lane, rank, -(-limit * weights[lane.key] // share) + weights[lane.key])
            for lane, rank in ranks.items()
        ]
        if not wanted:
            return []
        runs: dict[str, list[Candidate]] = {lane.key: [] for lane in ranks}
        for run in await self.runs_of_lanes(queue, priority, wanted):
            runs[run.key].append(run)
        return [KeyLine(key, weights[key], its_runs) for key, its_runs in runs.items()]

    async def _choose_suspects(self) -> None:
        """Choose suspects, too: some of the first number of crashes that has any."""
        given = offer(self.tx, self.wanted)
        rows = await self.tx.fetch("limited_suspects", **given)
        suspects = [Candidate._make(row) for row in rows]
        for queue in {run.queue for run in suspects}:
            keys = sorted({run.key for run in suspects if run.key and run.queue == queue})
            await self.flows.add_keys(queue, keys)
        self.chosen += pick_suspects(suspects, self.flows.rooms, self.wanted.suspects)

    # --- what was claimed ------------------------------------------------------------------------

    def _turns(self, queue: str) -> dict[str, Turn]:
        text = self.flows.rows[FlowId(FlowKind.QUEUE, queue)].turns
        return msgspec.json.decode(text, type=dict[str, Turn]) if text else {}

    def holding(self) -> list[str]:
        """Return the chosen runs that keep their places while they wait."""
        return [run.uid for run in self.chosen if any(map(self._holds, run.flows))]

    def _holds(self, flow: FlowId) -> bool:
        room = self.flows.rooms.get(flow)
        return room is not None and room.holds_open

    async def note(self, claimed: Collection[str]) -> None:
        """Write whose turn it was, and which starts count for the rates."""
        runs = [run for run in self.chosen if run.uid in claimed]
        changed: dict[FlowId, FlowRow] = {}
        rows, now = self.flows.rows, self.flows.now
        for queue in {run.queue for run in runs}:
            flow, turns = FlowId(FlowKind.QUEUE, queue), self._turns(queue)
            for run in (run for run in runs if run.queue == queue and run.crashes < SUSPECT_AT):
                level = str(run.priority)
                turns[level] = served(
                    turns.pop(level, Turn()), run.key, self.flows.weight(queue, run.key)
                )
            kept = dict(list(turns.items())[-MAX_TURNS:])
            changed[flow] = rows[flow]._replace(turns=msgspec.json.encode(kept).decode())
        forget_at: dict[FlowId, Instant] = {}
        begun = Counter(flow for run in runs if not run.is_begun for flow in run.flows)
        for flow, count in begun.items():
            row = changed.get(flow) or rows.get(flow)
            row = row or FlowRow(flow.kind, flow.scope, flow.name)
            rate = (self.flows.limits_of_keys.get(flow) or row.limits).rate
            if rate is None:
                continue
            starts = record_starts(rate, read_starts(row.starts), now, count)
            next_at = next_start(rate, starts, now)
            changed[flow] = row._replace(
                starts=write_starts(starts), next_at=next_at if next_at > now else None
            )
            if flow.kind is FlowKind.KEY and row.is_unset:
                forget_at[flow] = now + 2 * rate.period
        for flow, row in sorted(changed.items()):
            if row != rows.get(flow):
                await self.tx.fetch(
                    "note_claims",
                    kind=str(flow.kind),
                    scope=flow.scope,
                    name=flow.name,
                    starts=row.starts,
                    next_at=row.next_at,
                    turns=row.turns,
                    forget_at=forget_at.get(flow),
                )


def pick_suspects(
    candidates: Sequence[Candidate], rooms: dict[FlowId, Room], suspects: SuspectRooms
) -> list[Candidate]:
    """Return the suspects to claim: some of the first number of crashes that has any."""
    for crashes, room in suspects:
        these = [run for run in candidates if min(run.crashes, MAX_CRASHES) == crashes]
        these.sort(key=lambda run: (-run.priority, run.due))
        taken: list[Candidate] = []
        for run in these:
            if len(taken) < room and take(rooms, run.flows, begun=run.is_begun):
                taken.append(run)
        if taken:
            return taken
    return []


def offer(tx: Tx, wanted: Wanted) -> dict[str, object]:
    """Return what a worker takes, as statements are given it."""
    return {
        "queues": tx.array(wanted.queues),
        "names": tx.array(wanted.names),
        "tags": tx.array(wanted.tags),
        "version": wanted.version,
        "suspect_at": SUSPECT_AT,
    }
