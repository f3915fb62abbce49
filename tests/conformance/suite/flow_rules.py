"""Claims under flow control, compared with the rules of `core.flow`."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
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
from onward.core.instant import HOUR, SECOND
from onward.engine.flows import FlowChange
from onward.model.flow import DeclaredLimits, in_force
from onward.model.runs import Move
from onward.store.runs import flow_lanes
from onward.store.runs.flow_lanes import UNLIMITED, FlowLane, LaneReader, UsualLimit
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import NAME, QUEUE, RELEASED, SUCCEEDED, a_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.flow import Room, Starts
    from onward.model.runs import ClaimedRun, NewRun
    from onward.store.database import Tx
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

EVERY_KEY = FlowId(FlowKind.KEY, "*", QUEUE)
NAMES = (NAME, "charge")
COUNT = 40
FULL_KEYS = 20


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
        if flow.kind is not FlowKind.KEY:
            return self.limits[flow]
        return in_force(
            *(declared(self.limits[each]) for each in (flow, EVERY_KEY) if each in self.limits)
        )

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


def declared(limits: FlowLimits) -> DeclaredLimits:
    return DeclaredLimits(limits.max, limits.rate, limits.hold)


def some_limits(rng: Random) -> FlowLimits:
    return FlowLimits(
        rng.choice((None, 1, 2, 5)),
        rng.choice((None, None, Rate(rng.randrange(1, 4), 5 * SECOND))),
        rng.choice((Hold.RUNNING, Hold.OPEN)),
        is_paused=rng.random() < 0.1,
    )


@contextmanager
def small_reads() -> Iterator[None]:
    """Let claims read few lanes at a time, and pass by few runs at a time."""
    names = ("MAX_LANES", "MIN_RUNS", "MAX_RUNS", "RUNS_A_KEY")
    before = {name: getattr(flow_lanes, name) for name in names}
    try:
        for name, value in zip(names, (3, 2, 5, 1000), strict=True):
            setattr(flow_lanes, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(flow_lanes, name, value)


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


@each(tuple(str(seed) for seed in range(12)))
async def test_a_claim_that_passes_by_many_keys_takes_what_the_rules_allow(
    world: World, kind: str
) -> None:
    """Limits of keys change on the way, and one key has limits of its own."""
    rng = Random(int(kind))
    worker, model = await world.worker(), Model(rng)
    model.limits = dict.fromkeys(model.limits, FlowLimits())
    for flow in (EVERY_KEY, FlowId(FlowKind.KEY, "c", QUEUE)):
        model.limits[flow] = some_limits(rng)._replace(is_paused=False)
        await worker.store.declare(flow, declared(model.limits[flow]))
    running: list[ClaimedRun] = []
    with small_reads():
        for number in range(2 * COUNT):
            run = a_run(str(number))._replace(
                name=rng.choice(NAMES), flow_key=rng.choice("abcdefgh")
            )
            await worker.store.start(run)
            if rng.random() < 0.3:
                running += await claim(world, worker, model, number + 1, rng.randrange(1, 9))
            while running and rng.random() < 0.3:
                ended = running.pop(rng.randrange(len(running)))
                move = rng.choice((SUCCEEDED, RELEASED, Move("waiting", due_in=2 * SECOND)))
                await worker.commit(ended, move=move)
            if rng.random() < 0.1:
                flow = rng.choice((EVERY_KEY, FlowId(FlowKind.KEY, "c", QUEUE)))
                # A place that is held is counted from when a limit holds: that stays as it is.
                hold = model.limits[flow].hold
                model.limits[flow] = some_limits(rng)._replace(is_paused=False, hold=hold)
                await worker.store.declare(flow, declared(model.limits[flow]))
            world.clock.advance(rng.choice((0, SECOND, 3 * SECOND)))


@each(("full", "held", "used up"))
async def test_keys_without_room_are_passed_by_in_one_read(world: World, kind: str) -> None:
    limits = {
        "full": DeclaredLimits(1),
        "held": DeclaredLimits(1, hold=Hold.OPEN),
        "used up": DeclaredLimits(rate=Rate(1, HOUR)),
    }
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, limits[kind])
    for number in range(2 * FULL_KEYS):
        await worker.store.start(keyed(f"{number}", f"key {number % FULL_KEYS}"))
    claimed = await worker.claim(FULL_KEYS, limited=True)
    assert len(claimed) == FULL_KEYS
    if kind == "held":
        for run in claimed:
            await worker.commit(run, move=Move("waiting", due_in=HOUR))
    if kind == "used up":
        for run in claimed[1:]:
            await worker.commit(run, move=SUCCEEDED)
        await worker.commit(claimed[0], move=RELEASED)
    await worker.store.start(keyed("open", "open"))

    async def read(tx: Tx) -> list[FlowLane]:
        async def usual() -> UsualLimit:
            given = limits[kind]
            return UsualLimit(given.max or UNLIMITED, given.hold is Hold.OPEN)

        reader = LaneReader(tx, QUEUE, 0, usual)
        first, position = await reader.read(FlowLane("", ""), None, 3)
        assert [lane.key for lane in first] == ["key 0", "key 1"]
        assert position is not None
        rest, position = await reader.read(FlowLane("", ""), None, 3)
        assert position is None
        return rest

    begun = ["key 0"] if kind == "used up" else []
    assert [lane.key for lane in await worker.store.read(read)] == [*begun, "open"]
    [found] = [run for run in await worker.claim(5, limited=True) if run.uid != claimed[0].uid]
    assert found.id == "open"


async def test_keys_that_used_up_their_rate_take_no_part_of_a_claim(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(rate=Rate(1, HOUR)))
    await worker.store.declare(
        FlowId(FlowKind.KEY, "open", QUEUE), DeclaredLimits(rate=Rate(99, HOUR))
    )
    for number in range(2 * FULL_KEYS):
        await worker.store.start(keyed(f"{number}", f"key {number % FULL_KEYS}"))
        await worker.store.start(keyed(f"open {number}", "open"))
    claimed = await worker.claim(FULL_KEYS + 1, limited=True)
    assert len({run.id[:4] == "open" for run in claimed}) == 2

    assert len(await worker.claim(FULL_KEYS, limited=True)) == FULL_KEYS


async def test_a_higher_rate_of_every_key_counts_at_once(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(rate=Rate(1, HOUR)))
    for number in range(2 * FULL_KEYS):
        await worker.store.start(keyed(f"{number}", f"key {number % FULL_KEYS}"))
    with small_reads():
        for run in await worker.claim(2 * FULL_KEYS, limited=True):
            await worker.commit(run, move=SUCCEEDED)
        assert await worker.claim(2 * FULL_KEYS, limited=True) == []

        await worker.store.declare(EVERY_KEY, DeclaredLimits(rate=Rate(2, HOUR)))

        assert len(await worker.claim(2 * FULL_KEYS, limited=True)) == FULL_KEYS


def keyed(id: str, key: str) -> NewRun:  # noqa: A002 - it is the user's word
    return a_run(id)._replace(flow_key=key)


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
