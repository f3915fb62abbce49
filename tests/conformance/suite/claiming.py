"""Claiming: what a worker takes, in which order, and what it takes over from one that vanished."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import HOUR, MINUTE, SECOND
from onward.model.runs import ClaimedRun, Move
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [run.id for run in claimed]


async def test_a_claim_makes_a_run_the_workers_own(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))
    world.clock.advance(SECOND)

    [claimed] = await worker.claim()

    run = await worker.store.run("uid-a")
    assert (run.state, run.worker, run.fence, run.due) == ("running", worker.name, 1, None)
    assert (claimed.fence, claimed.inbox, claimed.seq, claimed.crashes) == (1, 0, 0, 0)
    assert claimed.started_at == run.started_at == run.created_at + SECOND
    assert (claimed.input, claimed.args_hash) == (b"j[1]", "hash-of-1")
    assert await worker.store.owned(worker.name) == {"uid-a": 1}


async def test_higher_priority_comes_first_then_what_is_due_longer(world: World) -> None:
    worker = await world.worker()
    for name, priority in (("low", -1), ("old", 0), ("new", 0), ("high", 2)):
        await worker.store.start(a_run(name)._replace(priority=priority))
        world.clock.advance(1)

    assert ids(await worker.claim(1)) == ["high"]
    assert ids(await worker.claim()) == ["old", "new", "low"]


async def test_priority_orders_the_runs_of_several_queues(world: World) -> None:
    worker = await world.worker()
    for name, queue, priority in (("a", "one", 1), ("b", "two", 2), ("c", "one", 3)):
        await worker.store.start(a_run(name)._replace(queue=queue, priority=priority))

    assert ids(await worker.claim(2, queues=("one", "two"))) == ["c", "b"]


async def test_a_due_run_and_a_ready_one_are_ordered_together(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("due")._replace(delay_in=MINUTE))
    world.clock.advance(MINUTE)
    await worker.store.start(a_run("ready")._replace(due=world.clock.wall()))
    await worker.store.start(a_run("urgent")._replace(priority=1))

    assert ids(await worker.claim(1)) == ["urgent"]
    assert set(ids(await worker.claim())) == {"due", "ready"}


async def test_no_more_is_claimed_than_was_asked_for(world: World) -> None:
    worker = await world.worker()
    for number in range(5):
        await worker.store.start(a_run(str(number))._replace(delay_in=number % 2))
    world.clock.advance(1)

    assert len(await worker.claim(3)) == 3
    assert len(await worker.claim(0)) == 0
    assert len(await worker.claim(3)) == 2


async def test_only_wanted_queues_and_names_are_claimed(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("queue")._replace(queue="slow"))
    await worker.store.start(a_run("name")._replace(name="charge"))
    await worker.store.start(a_run("late")._replace(queue="slow", delay_in=1))
    world.clock.advance(1)

    assert await worker.claim() == []
    assert await worker.claim(queues=(), names=()) == []
    assert ids(await worker.claim(names=("charge", "other"))) == ["name"]
    assert set(ids(await worker.claim(queues=("slow",)))) == {"queue", "late"}


async def test_a_pinned_run_is_claimed_by_its_version_alone(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("pinned")._replace(version="v1"))
    await worker.store.start(a_run("free"))

    assert ids(await worker.claim(version="v2")) == ["free"]
    assert ids(await worker.claim()) == []
    assert ids(await worker.claim(version="v1")) == ["pinned"]


async def test_a_tagged_run_is_claimed_by_a_worker_with_one_of_its_tags(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("tagged")._replace(tags="gpu eu-west"))
    await worker.store.start(a_run("plain"))

    assert ids(await worker.claim(tags=("eu", "west", "gp", "%"))) == ["plain"]
    assert ids(await worker.claim(tags=("cpu", "eu-west"))) == ["tagged"]


async def test_what_waits_for_a_message_is_paused_or_is_over_is_not_claimed(world: World) -> None:
    worker = await world.worker()
    waiting, paused, over = await worker.owning("waiting", "paused", "over")
    await worker.commit(waiting, an_open_record(waiting, "w#1"), move=Move("waiting"))
    await worker.commit(paused, move=Move("paused", "operator"))
    await worker.commit(over, move=SUCCEEDED)
    world.clock.advance(24 * HOUR)

    assert await worker.claim() == []


async def test_a_queue_that_is_asked_for_twice_is_asked_for_once(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))

    claimed = await worker.claim(queues=("default", "default"), names=("greet", "greet"))

    assert [(run.id, run.fence) for run in claimed] == [("a", 1)]


async def test_a_fence_rises_with_each_claim(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    fences = [run.fence]
    for _ in range(3):
        await worker.commit(run, move=RELEASED)
        [run] = await worker.claim()
        fences.append(run.fence)

    assert fences == [1, 2, 3, 4]


async def test_a_run_starts_once_however_often_it_is_claimed(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=RELEASED)
    world.clock.advance(SECOND)

    [again] = await worker.claim()

    assert again.started_at == run.started_at


async def test_two_workers_never_claim_the_same_run(world: World) -> None:
    one, other = await world.worker(), await world.worker()
    await asyncio.gather(*(one.store.start(a_run(str(number))) for number in range(60)))

    claims = await asyncio.gather(*(w.claim(7) for w in (one, other) * 5))

    taken = [run.uid for claim in claims for run in claim]
    assert len(taken) == len(set(taken)) >= 35
    assert await one.store.owned(one.name) | await other.store.owned(other.name) == dict.fromkeys(
        taken, 1
    )


async def test_without_a_lease_nothing_is_claimed(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))
    await worker.leave()

    assert await worker.claim() == []
    assert (await worker.store.run("uid-a")).state == "ready"


async def test_a_claim_tells_how_far_a_run_has_come(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    park = Move("waiting", due_in=0, seq=2, phase="prepared")
    await worker.commit(run, a_record(run, 1), a_record(run, 2), move=park)

    [again] = await worker.claim()

    assert (again.seq, again.phase, again.fence) == (2, "prepared", 2)


async def test_the_next_due_time_is_the_earliest_of_those_that_wait(world: World) -> None:
    store = await world.store()
    now = world.clock.wall()
    assert await store.next_due() is None
    for minutes in (3, 1, 2):
        await store.start(a_run(str(minutes))._replace(delay_in=minutes * MINUTE))

    assert await store.next_due() == now + MINUTE


async def test_a_claim_says_since_when_a_run_was_ready_unless_its_worker_vanished(
    world: World,
) -> None:
    worker, other = await world.worker(), await world.worker()
    started = world.clock.wall()
    await worker.store.start(a_run("a"))
    world.clock.advance(MINUTE)

    [first] = await worker.claim()
    await worker.commit(first, move=Move("waiting", due_in=SECOND))
    due = world.clock.wall() + SECOND
    world.clock.advance(MINUTE)
    [second] = await worker.claim()
    await worker.leave()
    [third] = await other.adopt()

    assert [run.ready_at for run in (first, second, third)] == [started, due, 0]
