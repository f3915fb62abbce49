"""Limits: runs of a flow key are claimed as far as there is room, never beyond, never too few."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.core.flow import FlowId, FlowKind
from onward.core.instant import HOUR, MINUTE
from onward.errors import Rejected
from onward.model.flow import DeclaredLimits
from onward.model.maintenance import MaintenanceDue
from onward.model.runs import Move
from tests.conformance.suite.samples import NAME, QUEUE, RELEASED, SUCCEEDED, a_run

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun, NewRun
    from tests.conformance.suite.world import World


def keyed(id: str, key: str = "k") -> NewRun:  # noqa: A002 - it is the user's word
    return a_run(id)._replace(flow_key=key)


def key_flow(name: str) -> FlowId:
    return FlowId(FlowKind.KEY, name, QUEUE)


def limited_to(maximum: int) -> DeclaredLimits:
    return DeclaredLimits(maximum)


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [run.id for run in claimed]


async def test_no_more_runs_of_a_key_are_claimed_than_its_limit(world: World) -> None:
    one, other = await world.worker(), await world.worker()
    await one.store.declare(key_flow("k"), limited_to(2))
    for number in range(4):
        await one.store.start(keyed(str(number)))
        world.clock.advance(1)

    first = await one.claim(limited=True)
    assert ids(first) == ["0", "1"]
    assert await other.claim(limited=True) == []

    await one.commit(first[0], move=SUCCEEDED)
    assert ids(await other.claim(limited=True)) == ["2"]
    await one.commit(first[1], move=Move("waiting", due_in=HOUR))
    assert ids(await one.claim(limited=True)) == ["3"]


async def test_a_key_without_a_limit_has_none(world: World) -> None:
    worker = await world.worker()
    for number in range(5):
        await worker.store.start(keyed(str(number)))

    assert len(await worker.claim(3, limited=True)) == 3
    assert len(await worker.claim(limited=True)) == 2


async def test_a_limit_can_be_changed_while_runs_are_running(world: World) -> None:
    worker = await world.worker()
    for number in range(6):
        await worker.store.start(keyed(str(number)))
    await worker.store.declare(key_flow("k"), limited_to(3))
    running = await worker.claim(limited=True)
    assert len(running) == 3

    await worker.store.declare(key_flow("k"), limited_to(1))
    for run in running[:2]:
        await worker.commit(run, move=SUCCEEDED)
    assert await worker.claim(limited=True) == []

    await worker.store.declare(key_flow("k"), limited_to(3))
    assert len(await worker.claim(limited=True)) == 2
    await worker.store.declare(key_flow("k"), limited_to(0))
    assert await worker.claim(limited=True) == []


async def test_a_limit_that_is_set_again_writes_nothing(world: World) -> None:
    store = await world.store()
    await store.declare(key_flow("k"), limited_to(3))
    await store.declare(key_flow("k"), limited_to(3))
    await store.declare(key_flow("other"), limited_to(0))

    rows = await world.sql("SELECT name, declared_max FROM onward_flow ORDER BY name")
    assert [tuple(row) for row in rows] == [("k", 3), ("other", 0)]
    with pytest.raises(Rejected, match="the key"):
        await store.declare(key_flow("k\0"), limited_to(3))


async def test_a_full_key_is_in_nobodys_way(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("full"), limited_to(1))
    await worker.store.declare(key_flow("k"), limited_to(1))
    for number in range(20):
        await worker.store.start(keyed(f"full-{number}", "full")._replace(priority=9))
    await worker.store.start(keyed("last"))
    await worker.store.start(a_run("free"))

    assert set(ids(await worker.claim(5, limited=True))) == {"full-0", "last", "free"}
    assert await worker.claim(5, limited=True) == []


async def test_runs_with_a_key_are_claimed_only_by_those_who_ask_for_them(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(keyed("keyed"))
    await worker.store.start(keyed("keyed and due")._replace(delay_in=1))
    await worker.store.start(a_run("free"))
    world.clock.advance(1)

    assert ids(await worker.claim()) == ["free"]
    assert set(ids(await worker.claim(limited=True))) == {"keyed", "keyed and due"}


async def test_runs_with_a_key_and_without_are_claimed_in_one_order(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("k"), limited_to(2))
    for id, key, priority in (  # noqa: A001
        ("a", None, 5), ("b", "k", 4), ("c", None, 3), ("d", "k", 2), ("e", "k", 9), ("f", None, 1),
    ):  # fmt: skip
        await worker.store.start(a_run(id)._replace(flow_key=key, priority=priority))

    assert ids(await worker.claim(3, limited=True)) == ["e", "a", "b"]
    assert ids(await worker.claim(3, limited=True)) == ["c", "f"]


async def test_a_claim_hands_out_suspects_with_and_without_a_key_few_at_a_time(
    world: World,
) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("free"))
    await worker.store.start(keyed("keyed"))
    await world.sql("UPDATE onward_run SET crashes = 2")

    assert len(await worker.claim(limited=True)) == 1
    assert len(await worker.claim(limited=True)) == 1


async def test_only_what_the_worker_can_take_is_claimed(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("k"), limited_to(10))
    for run in (
        keyed("queue")._replace(queue="slow"),
        keyed("name")._replace(name="charge"),
        keyed("version")._replace(version="v7"),
        keyed("tags")._replace(tags="gpu eu"),
        keyed("late")._replace(delay_in=MINUTE),
        keyed("plain"),
    ):
        await worker.store.start(run)

    assert ids(await worker.claim(limited=True)) == ["plain"]
    assert ids(await worker.claim(limited=True, version="v7")) == ["version"]
    assert ids(await worker.claim(limited=True, tags=("eu",))) == ["tags"]
    assert ids(await worker.claim(limited=True, names=("charge",))) == ["name"]
    assert ids(await worker.claim(limited=True, queues=("default", "slow"))) == ["queue"]
    world.clock.advance(MINUTE)
    assert ids(await worker.claim(limited=True)) == ["late"]


async def test_the_most_urgent_run_of_a_workflow_comes_first_in_whatever_queue(
    world: World,
) -> None:
    worker = await world.worker()
    await worker.store.declare(FlowId(FlowKind.WORKFLOW, NAME), limited_to(2))
    for id, queue, priority in (("a", "one", 1), ("b", "two", 2), ("c", "one", 3)):  # noqa: A001
        await worker.store.start(keyed(id)._replace(queue=queue, priority=priority))

    assert ids(await worker.claim(limited=True, queues=("one", "two"))) == ["c", "b"]
    assert await worker.claim(limited=True, queues=("one", "two")) == []


async def test_a_run_that_is_due_goes_on_within_the_limit(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("k"), limited_to(1))
    await worker.store.start(keyed("sleeper"))
    [sleeper] = await worker.claim(1, limited=True)
    await worker.store.start(keyed("other"))
    await worker.commit(sleeper, move=Move("waiting", due_in=MINUTE))
    [other] = await worker.claim(limited=True)
    world.clock.advance(MINUTE)

    assert await worker.claim(limited=True) == []
    await worker.commit(other, move=SUCCEEDED)
    [again] = await worker.claim(limited=True)
    assert (again.id, again.fence) == ("sleeper", 2)


async def test_a_run_whose_worker_vanished_keeps_its_place_and_is_adopted(world: World) -> None:
    gone, heir = await world.worker(), await world.worker()
    await gone.store.declare(key_flow("k"), limited_to(1))
    await gone.store.start(keyed("first"))
    await gone.store.start(keyed("second"))
    assert ids(await gone.claim(limited=True)) == ["first"]
    await gone.leave()

    [adopted] = await heir.claim(limited=True)
    assert (adopted.id, adopted.crashes) == ("first", 1)
    assert await heir.claim(limited=True) == []
    await heir.commit(adopted, move=SUCCEEDED)
    assert ids(await heir.claim(limited=True)) == ["second"]


async def test_suspects_with_a_key_are_handed_out_few_at_a_time_within_the_limit(
    world: World,
) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("k"), limited_to(2))
    for number in range(4):
        await worker.store.start(keyed(str(number)))
    await world.sql("UPDATE onward_run SET crashes = 2")

    assert await worker.claim(suspects=5) == []
    assert await worker.claim(limited=True, suspects=0) == []
    [one] = await worker.claim(limited=True)
    assert len(await worker.claim(limited=True, suspects=5)) == 1
    assert await worker.claim(limited=True, suspects=5) == []
    assert one.crashes == 2


async def test_without_a_lease_nothing_with_a_key_is_claimed(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(keyed("a"))
    await worker.leave()

    assert await worker.claim(limited=True) == []
    assert (await worker.store.run("uid-a")).state == "ready"


async def test_a_released_run_makes_room(world: World) -> None:
    worker = await world.worker()
    await worker.store.declare(key_flow("k"), limited_to(1))
    await worker.store.start(keyed("a"))
    [run] = await worker.claim(limited=True)

    await worker.commit(run, move=RELEASED)

    assert [again.fence for again in await worker.claim(limited=True)] == [2]


async def test_many_who_claim_at_once_never_pass_the_limit(world: World) -> None:
    one, other = await world.worker(), await world.worker()
    for key, most in (("a", 3), ("b", 5)):
        await one.store.declare(key_flow(key), limited_to(most))
        for number in range(20):
            await one.store.start(keyed(f"{key}-{number}", key))

    claims = await asyncio.gather(*(w.claim(4, limited=True) for w in (one, other) * 6))

    taken = [run.id for claim in claims for run in claim]
    assert len(taken) == len(set(taken)) <= 8
    for key, most in (("a", 3), ("b", 5)):
        assert sum(id.startswith(key) for id in taken) <= most  # noqa: A001
    taken += ids(await one.claim(limited=True)) + ids(await one.claim(limited=True))
    assert len(taken) == 8


async def test_a_look_at_the_chores_shows_what_has_a_key_and_could_be_claimed(world: World) -> None:
    worker = await world.worker()
    nothing = MaintenanceDue(0, 0, outbox=False, limited=False, overdue=False)
    await worker.store.start(a_run("free"))
    await worker.store.start(keyed("late")._replace(delay_in=MINUTE))
    assert (await worker.store.maintenance_due())._replace(at=0) == nothing

    await worker.store.start(keyed("now"))
    assert (await worker.store.maintenance_due())._replace(at=0) == nothing._replace(limited=True)
    await worker.claim(limited=True)
    assert (await worker.store.maintenance_due())._replace(at=0) == nothing

    world.clock.advance(MINUTE)
    assert (await worker.store.maintenance_due())._replace(at=0) == nothing._replace(limited=True)
