"""Flow control: queues, workflows and keys at once, pauses, rates, turns of keys, held places."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onward.core.flow import FlowId, FlowKind, Hold, Rate
from onward.core.instant import HOUR, MINUTE, SECOND
from onward.engine.flows import FlowChange
from onward.model.flow import DeclaredLimits
from onward.model.runs import Move
from onward.store.runs.flows import forget_idle_keys, has_idle_keys
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import NAME, QUEUE, RELEASED, SUCCEEDED, a_child, a_run

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun, NewRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

OF_QUEUE = FlowId(FlowKind.QUEUE, QUEUE)
OF_WORKFLOW = FlowId(FlowKind.WORKFLOW, NAME)
EVERY_KEY = FlowId(FlowKind.KEY, "*", QUEUE)


def of_key(key: str) -> FlowId:
    return FlowId(FlowKind.KEY, key, QUEUE)


def keyed(id: str, key: str) -> NewRun:  # noqa: A002 - it is the user's word
    return a_run(id)._replace(flow_key=key)


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [run.id for run in claimed]


async def begin(store: Store, *runs: NewRun) -> None:
    for run in runs:
        await store.start(run)


async def drain(worker: Worker, limit: int = 100) -> list[str]:
    """Claim and end runs until there are no more, and return their ids in that order."""
    done: list[str] = []
    while claimed := await worker.claim(limit, limited=True):
        for run in claimed:
            await worker.commit(run, move=SUCCEEDED)
            done.append(run.id)
    return done


# --- limits ---------------------------------------------------------------------------------------


async def test_a_queue_a_workflow_and_a_key_limit_a_run_at_once(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(OF_QUEUE, DeclaredLimits(4))
    await worker.store.declare(OF_WORKFLOW, DeclaredLimits(3))
    await worker.store.declare(EVERY_KEY, DeclaredLimits(2))
    for number in range(4):
        await begin(worker.store, keyed(f"a{number}", "a"), keyed(f"b{number}", "b"))
        await begin(worker.store, a_run(f"other{number}")._replace(name="charge"))

    claimed = await worker.claim(names=(NAME, "charge"), limited=True)

    kinds = Counter(run.id[0] for run in claimed)
    assert (kinds["a"], kinds["b"], kinds["o"]) == (1, 1, 2)
    for run in claimed:
        if run.name == "charge":
            await worker.commit(run, move=SUCCEEDED)
    again = await worker.claim(names=(NAME,), limited=True)
    assert len(again) == 1
    assert await worker.claim(names=(NAME,), limited=True) == []


@each(("queue", "workflow"))
async def test_a_limit_holds_for_runs_that_were_started_before_it(world: World, kind: str) -> None:
    worker, other = await world.worker(), await world.worker()
    await begin(worker.store, *(a_run(str(number)) for number in range(5)))
    await begin(worker.store, a_run("late")._replace(delay_in=MINUTE))
    assert ids(await worker.claim(1)) == ["0"]

    flow = OF_QUEUE if kind == "queue" else OF_WORKFLOW
    await worker.store.declare(flow, DeclaredLimits(2))
    world.clock.advance(MINUTE)

    claimed = await worker.claim() + await worker.claim(limited=True)
    assert len(claimed) == 1
    assert await other.claim(limited=True) == await other.claim() == []
    await worker.commit(claimed[0], move=SUCCEEDED)
    assert len(await other.claim(limited=True)) == 1


async def test_a_limit_of_another_queue_or_workflow_is_in_nobodys_way(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(FlowId(FlowKind.QUEUE, "slow"), DeclaredLimits(0))
    await worker.store.declare(FlowId(FlowKind.WORKFLOW, "charge"), DeclaredLimits(0))
    await begin(worker.store, a_run("charge")._replace(name="charge"), a_run("free"))

    assert ids(await worker.claim(names=(NAME, "charge"))) == ["free"]


async def test_an_operators_limit_wins_until_it_is_cleared(world: World) -> None:
    worker = await world.worker()
    await begin(worker.store, *(a_run(str(number)) for number in range(9)))
    await worker.store.declare(OF_QUEUE, DeclaredLimits(1))
    await worker.store.change_flow(OF_QUEUE, FlowChange(max=3).of)
    await worker.store.declare(OF_QUEUE, DeclaredLimits(2))
    claimed = await worker.claim() + await worker.claim(limited=True)
    assert len(claimed) == 3

    [row] = await worker.store.flows_of(OF_QUEUE)
    assert (row.declared.max, row.operator.max, row.limits.max) == (2, 3, 3)
    await worker.store.change_flow(OF_QUEUE, FlowChange(clears=True).of)
    await worker.commit(claimed[0], move=SUCCEEDED)
    assert await worker.claim(limited=True) == []
    await worker.commit(claimed[1], move=SUCCEEDED)
    assert len(await worker.claim(limited=True)) == 1


async def test_an_operators_limit_of_one_key_wins_over_that_of_every_key(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(1))
    await worker.store.change_flow(of_key("big"), FlowChange(max=3).of)
    for number in range(4):
        await begin(worker.store, keyed(f"big{number}", "big"), keyed(f"a{number}", "a"))

    claimed = await worker.claim(limited=True)

    assert Counter(run.id[:-1] for run in claimed) == {"big": 3, "a": 1}


# --- held places ----------------------------------------------------------------------------------


async def test_a_limit_that_holds_open_counts_runs_that_wait(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(OF_WORKFLOW, DeclaredLimits(1, hold=Hold.OPEN))
    await begin(worker.store, keyed("a", ""), keyed("b", ""))
    [run] = await worker.claim(1, limited=True)
    await worker.commit(run, move=Move("waiting", due_in=HOUR))
    assert await worker.claim(limited=True) == []

    world.clock.advance(HOUR)
    [again] = await worker.claim(limited=True)
    assert (again.id, again.fence) == ("a", 2)
    await worker.commit(again, move=RELEASED)
    [again] = await worker.claim(limited=True)
    await worker.commit(again, move=SUCCEEDED)
    assert ids(await worker.claim(limited=True)) == ["b"]


async def test_a_limit_that_begins_to_hold_open_counts_what_has_begun(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("waiting", due_in=HOUR))
    await begin(worker.store, a_run("b"))
    await worker.store.declare(OF_QUEUE, DeclaredLimits(1, hold=Hold.OPEN))

    assert await worker.claim(limited=True) == []


async def test_a_held_place_is_free_again_when_its_run_is_ended_by_force(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(1, hold=Hold.OPEN))
    await begin(worker.store, keyed("a", "k"), keyed("b", "k"))
    [run] = await worker.claim(limited=True)
    await worker.commit(run, move=Move("waiting", due_in=HOUR))

    await worker.store.stop("a", state="cancelled", reason="operator")

    assert ids(await worker.claim(limited=True)) == ["b"]


# --- pauses ---------------------------------------------------------------------------------------


@each(("queue", "workflow"))
async def test_nothing_is_claimed_of_what_is_paused(world: World, kind: str) -> None:
    worker, gone = await world.worker(), await world.worker()
    flow = OF_QUEUE if kind == "queue" else OF_WORKFLOW
    [lost] = await gone.owning("lost")
    await begin(worker.store, a_run("free"), keyed("keyed", "k"))
    await begin(worker.store, a_run("late")._replace(delay_in=MINUTE))
    await worker.store.change_flow(flow, FlowChange(is_paused=True).of)
    await gone.leave()
    world.clock.advance(MINUTE)
    assert await worker.claim() == await worker.claim(limited=True) == []

    await worker.store.change_flow(flow, FlowChange(is_paused=False).of)
    claimed = await worker.claim(limited=True) + await worker.claim(limited=True)
    assert sorted(ids(claimed)) == ["free", "keyed", "late", "lost"]
    assert lost.id == "lost"


async def test_a_run_of_something_paused_goes_on_and_ends(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.change_flow(OF_QUEUE, FlowChange(is_paused=True).of)

    await worker.commit(run, move=SUCCEEDED)

    assert (await worker.store.run(run.uid)).state == "succeeded"


# --- rates ----------------------------------------------------------------------------------------


@each(("queue", "workflow", "key"))
async def test_no_period_has_more_starts_than_the_rate(world: World, kind: str) -> None:
    worker = await world.worker()
    flow = {"queue": OF_QUEUE, "workflow": OF_WORKFLOW, "key": EVERY_KEY}[kind]
    await worker.store.declare(flow, DeclaredLimits(rate=Rate(3, MINUTE)))
    await begin(worker.store, *(keyed(str(number), "k") for number in range(9)))
    started = []

    for _ in range(40):
        started += [world.clock.wall()] * len(await drain(worker, 1))
        world.clock.advance(5 * SECOND)

    assert len(started) == 9
    for at in started:
        assert sum(at <= other < at + MINUTE for other in started) <= 3
    assert started[8] - started[0] <= 3 * MINUTE


async def test_a_run_that_goes_on_is_no_new_start(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(OF_WORKFLOW, DeclaredLimits(rate=Rate(1, HOUR)))
    await begin(worker.store, keyed("a", ""), keyed("b", ""))
    for fence in (1, 2, 3):
        [run] = await worker.claim(limited=True)
        assert (run.id, run.fence) == ("a", fence)
        await worker.commit(run, move=RELEASED)


async def test_the_row_of_a_key_is_forgotten_with_its_starts_unless_something_is_set(
    world: World,
) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(rate=Rate(1, MINUTE)))
    await worker.store.change_flow(of_key("heavy"), FlowChange(weight=3).of)
    await begin(worker.store, *(keyed(key, key) for key in ("heavy", "light", "set later")))
    await drain(worker)
    await worker.store.change_flow(of_key("set later"), FlowChange(max=1).of)

    assert not await worker.store.read(has_idle_keys)
    world.clock.advance(2 * MINUTE)
    assert await worker.store.read(has_idle_keys)
    assert await worker.store.write(forget_idle_keys) == 1
    assert await worker.store.flows_of(of_key("light")) == []


async def test_the_next_start_of_a_rate_is_something_to_wait_for(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(OF_WORKFLOW, DeclaredLimits(rate=Rate(1, MINUTE)))
    await begin(worker.store, keyed("a", ""), keyed("b", ""))
    now = world.clock.wall()
    await drain(worker)

    due = await worker.store.next_due(now)

    assert due is not None
    assert 0 <= due - now - MINUTE <= SECOND


# --- turns ----------------------------------------------------------------------------------------


async def test_keys_get_claims_by_their_weights(world: World) -> None:
    worker = await world.worker()
    await worker.store.change_flow(of_key("heavy"), FlowChange(weight=3).of)
    for number in range(40):
        await begin(worker.store, keyed(f"heavy{number}", "heavy"))
    for number in range(40):
        await begin(worker.store, keyed(f"light{number}", "light"))
    done: list[str] = []

    for size in (1, 1, 2, 5, 7, 8, 16):
        for run in await worker.claim(size, limited=True):
            await worker.commit(run, move=SUCCEEDED)
            done.append(run.id[:5])

    assert Counter(done) == {"heavy": 30, "light": 10}


async def test_a_key_that_comes_late_has_saved_up_nothing(world: World) -> None:
    worker = await world.worker()
    for number in range(30):
        await begin(worker.store, keyed(f"early{number}", "e"))
    claimed = await worker.claim(10, limited=True)
    assert len(claimed) == 10
    for number in range(30):
        await begin(worker.store, keyed(f"later{number}", "a"))

    order = [run.id[:5] for run in await worker.claim(10, limited=True)]

    assert Counter(order) == {"early": 5, "later": 5}


async def test_a_key_waits_for_one_turn_of_each_other_key(world: World) -> None:
    worker = await world.worker()
    for number in range(50):
        await begin(worker.store, keyed(f"first{number}", "first"))
    for number in range(20):
        await begin(worker.store, keyed(f"key{number}", f"key{number}"))

    done = await drain(worker, 3)

    assert max(done.index(f"key{number}") for number in range(20)) <= 2 * 21
    assert len(done) == 70


async def test_a_key_with_room_takes_all_turns_behind_many_keys_without_room(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(EVERY_KEY, DeclaredLimits(0))
    await worker.store.declare(of_key("open"), DeclaredLimits(9))
    await begin(worker.store, *(keyed(f"closed{n}", f"closed{n}") for n in range(30)))
    await begin(worker.store, *(keyed(f"open{n}", "open") for n in range(5)))

    assert len(await worker.claim(2, limited=True)) == 2
    assert len(await worker.claim(9, limited=True)) == 3


async def test_turns_of_one_priority_are_not_lost_to_another(world: World) -> None:
    worker = await world.worker()
    for number in range(6):
        await begin(worker.store, keyed(f"a{number}", "a"), keyed(f"b{number}", "b"))
    done = []

    for number in range(6):
        await begin(worker.store, keyed(f"z{number}", "z")._replace(priority=9))
        done += [run.id[0] for run in await worker.claim(2, limited=True)]

    assert Counter(done) == {"z": 6, "a": 3, "b": 3}


@each(("keyed", "free"))
async def test_children_and_what_has_begun_come_before_new_runs(world: World, kind: str) -> None:
    key = None if kind == "free" else ""
    limited = kind == "keyed"
    worker = await world.worker()
    await begin(worker.store, a_run("parent")._replace(flow_key=key))
    [parent] = await worker.claim(limited=limited)
    await begin(worker.store, *(a_run(f"new{n}")._replace(flow_key=key) for n in range(3)))
    world.clock.advance(SECOND)
    children = [a_child(parent, f"child{n}")._replace(flow_key=key) for n in range(2)]
    await worker.commit(parent, starts=tuple(children))
    world.clock.advance(SECOND)
    await worker.commit(parent, move=RELEASED)

    order = [ids(await worker.claim(1, limited=limited))[0] for _ in range(6)]

    assert order == ["parent", "child0", "child1", "new0", "new1", "new2"]


async def test_runs_with_and_without_limits_are_claimed_in_turn(world: World) -> None:
    worker = await world.worker()
    for number in range(20):
        await begin(worker.store, keyed(f"k{number}", "k"))
    world.clock.advance(SECOND)
    await begin(worker.store, *(a_run(f"free{number}") for number in range(3)))

    claimed = ids(await worker.claim(6, limited=True))

    assert Counter(id[0] for id in claimed) == {"k": 3, "f": 3}  # noqa: A001
