"""Claims under flow control, compared with the rules of `core.flow`."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from onward.core.flow import (
    Candidate,
    FlowId,
    FlowKind,
    FlowLimits,
    Hold,
    Rate,
    rank,
    record_starts,
    room_of,
    take,
)
from onward.core.instant import SECOND
from onward.engine.flows import FlowChange
from onward.model.flow import DeclaredLimits
from onward.model.runs import Move
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import NAME, QUEUE, RELEASED, SUCCEEDED, a_run

if TYPE_CHECKING:
    from onward.core.flow import Room, Starts
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

EVERY_KEY = FlowId(FlowKind.KEY, "*", QUEUE)
NAMES = (NAME, "charge")
COUNT = 40


class Open(NamedTuple):
    """An open run, and what the rules say of it."""

    state: str
    candidate: Candidate


class Model:
    """What the rules know: the limits, and the starts so far."""

    def __init__(self, rng: Random) -> None:
        flows = [FlowId(FlowKind.QUEUE, QUEUE), EVERY_KEY]
        flows += [FlowId(FlowKind.WORKFLOW, name) for name in NAMES]
        self.limits = {flow: some_limits(rng) for flow in flows}
        self.starts: dict[FlowId, Starts] = {}

    def of(self, flow: FlowId) -> FlowLimits:
        """Return what limits a queue, a workflow or a key."""
        return self.limits[EVERY_KEY if flow.kind is FlowKind.KEY else flow]

    def rooms(self, runs: dict[str, Open], now: int) -> dict[FlowId, Room]:
        """Return how much room there is."""
        running, holding = Counter[FlowId](), Counter[FlowId]()
        for run in runs.values():
            counts = running if run.state == "running" else holding
            if run.candidate.is_begun:
                counts.update(run.candidate.flows)
        flows = {flow for run in runs.values() for flow in run.candidate.flows}
        return {
            flow: room_of(
                self.of(flow),
                running[flow] + (holding[flow] if self.of(flow).hold is Hold.OPEN else 0),
                self.starts.get(flow, ()),
                now,
            )
            for flow in flows
        }

    def started(self, run: Candidate, now: int) -> None:
        """Note that a run was claimed for the first time."""
        for flow in run.flows:
            rate = self.of(flow).rate
            if rate is not None:
                self.starts[flow] = record_starts(rate, self.starts.get(flow, ()), now, 1)


def some_limits(rng: Random) -> FlowLimits:
    return FlowLimits(
        rng.choice((None, 1, 2, 5)),
        rng.choice((None, None, Rate(rng.randrange(1, 4), 5 * SECOND))),
        rng.choice((Hold.RUNNING, Hold.OPEN)),
        is_paused=rng.random() < 0.1,
    )


async def open_runs(worker: Worker, count: int) -> dict[str, Open]:
    found = {}
    for number in range(count):
        row = await worker.store.run(f"uid-{number}")
        if row.state in ("ready", "running", "waiting", "paused"):
            key = row.flow_key or ""
            place = rank(row.fence, row.parent)
            run = Candidate(row.uid, row.priority, row.due or 0, row.queue, row.name, key, place)
            found[row.uid] = Open(row.state, run)
    return found


@each(tuple(str(seed) for seed in range(8)))
async def test_a_claim_takes_what_the_rules_allow_and_leaves_nothing_else(
    world: World, kind: str
) -> None:
    rng = Random(int(kind))
    worker, model = await world.worker(), Model(Random(int(kind)))
    for flow, given in model.limits.items():
        await worker.store.declare(flow, DeclaredLimits(given.max, given.rate, given.hold))
        if given.is_paused:
            await worker.store.change_flow(flow, FlowChange(is_paused=True).of)
    if model.limits[EVERY_KEY].is_paused:  # keys are not paused one by one
        model.limits[EVERY_KEY] = model.limits[EVERY_KEY]._replace(is_paused=False)
    running: list[ClaimedRun] = []
    for number in range(COUNT):
        run = a_run(str(number))._replace(
            name=rng.choice(NAMES),
            flow_key=rng.choice((None, "", "a", "b")),
            priority=rng.randrange(2),
        )
        await worker.store.start(run)
        if rng.random() < 0.5:
            running += await claim(world, worker, model, number + 1, rng.randrange(1, 6))
        while running and rng.random() < 0.5:
            ended = running.pop(rng.randrange(len(running)))
            move = rng.choice((SUCCEEDED, RELEASED, Move("waiting", due_in=2 * SECOND)))
            await worker.commit(ended, move=move)
        world.clock.advance(SECOND)


async def claim(
    world: World, worker: Worker, model: Model, count: int, size: int
) -> list[ClaimedRun]:
    """Claim, and compare what was claimed, and what was left, with the rules."""
    now = world.clock.wall()
    before = await open_runs(worker, count)
    rooms = model.rooms(before, now)
    claimed: list[ClaimedRun] = []
    while len(claimed) < size:  # one claim need not find all
        found = await worker.claim(size - len(claimed), names=NAMES, limited=True)
        if not found:
            break
        claimed += found
    for run in claimed:
        candidate = before[run.uid].candidate
        assert take(rooms, candidate.flows, begun=candidate.is_begun), (run.id, rooms)
        if not candidate.is_begun:
            model.started(candidate, now)
    taken = {run.uid for run in claimed}
    for uid, (state, left) in before.items() if len(claimed) < size else ():
        if uid not in taken and (state == "ready" or (state == "waiting" and left.due <= now)):
            fits = all(rooms[flow].fits(begun=left.is_begun) for flow in left.flows)
            assert not fits, (uid, rooms)
    return claimed
