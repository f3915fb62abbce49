"""Deadlines: a run is told once that its time is up, and one that never began is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import MINUTE, SECOND
from onward.model.ends import read_child_end
from onward.model.maintenance import MaintenanceDue
from onward.model.runs import Move
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import SUCCEEDED, a_child, a_run, an_open_record
from tests.conformance.suite.stopping import STANDINGS, inbox

if TYPE_CHECKING:
    from onward.model.runs import NewRun
    from tests.conformance.suite.world import World

NOTHING = MaintenanceDue(0, 0, outbox=False, limited=False, overdue=False)


def due_in_a_minute(id: str) -> NewRun:  # noqa: A002 - it is the user's word
    return a_run(id)._replace(deadline_in=MINUTE)


async def test_a_deadline_counts_from_the_scheduled_start(world: World) -> None:
    store = await world.store()
    await store.start(due_in_a_minute("a")._replace(delay_in=SECOND))
    await store.start(a_run("b")._replace(deadline=7))

    first, second = await store.run("uid-a"), await store.run("uid-b")
    assert first.deadline == first.scheduled_at + MINUTE == world.clock.wall() + SECOND + MINUTE
    assert second.deadline == 7


async def test_a_run_that_never_began_is_over_at_its_deadline(world: World) -> None:
    store = await world.store()
    await store.start(due_in_a_minute("a")._replace(due=world.clock.wall()))
    world.clock.advance(MINUTE - 1)
    assert await store.overdue() == 0
    world.clock.advance(1)

    assert await store.overdue() == 1

    row = await store.run("uid-a")
    assert (row.state, row.reason, row.fence) == ("timed_out", "deadline", 1)
    assert await store.overdue() == 0


async def test_the_parent_of_a_run_that_never_began_is_told(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    child = a_child(parent, "child")._replace(deadline_in=SECOND)
    await worker.commit(
        parent, an_open_record(parent, "child#1"), move=Move("waiting", seen=0), starts=(child,)
    )
    world.clock.advance(SECOND)

    assert await worker.store.overdue() == 1

    [message] = await inbox(worker.store, parent.uid)
    assert (message.message, message.name) == ("child child#1", "child#1")
    assert read_child_end(message.payload or b"") == ("timed_out", "deadline", b"")
    assert (await worker.store.run(parent.uid)).state == "ready"


@each(STANDINGS)
async def test_a_run_that_began_is_told_once(world: World, standing: str) -> None:
    worker = await world.worker()
    [run] = await worker.given(due_in_a_minute("a"))
    move = STANDINGS[standing](run)
    if move is not None:
        await worker.commit(run, move=move)
    world.clock.advance(MINUTE)

    assert await worker.store.overdue() == 1
    assert await worker.store.overdue() == 0

    [message] = await inbox(worker.store, run.uid)
    assert (message.message, message.kind, message.name) == ("deadline", "cancel", "deadline")
    row = await worker.store.run(run.uid)
    assert (row.state, row.inbox) == ("running" if standing == "running" else "ready", 1)


async def test_a_run_that_is_over_is_not_told(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.given(due_in_a_minute("a"))
    await worker.commit(run, move=SUCCEEDED)
    world.clock.advance(MINUTE)

    assert await worker.store.overdue() == 0
    assert (await worker.store.maintenance_due())._replace(at=0) == NOTHING
    assert (await worker.store.run(run.uid)).state == "succeeded"


async def test_the_most_urgent_come_first_and_no_more_than_asked_for(world: World) -> None:
    store = await world.store()
    for number in (3, 1, 2):
        await store.start(a_run(str(number))._replace(deadline_in=number))
    world.clock.advance(SECOND)

    assert await store.overdue(limit=2) == 2
    assert await store.counts() == {"timed_out": 2, "ready": 1}
    assert (await store.run("uid-3")).state == "ready"
    assert await store.overdue(limit=2) == 1


async def test_two_who_look_at_once_tell_each_run_once(world: World) -> None:
    one, two = await world.worker(), await world.worker()
    await one.given(*(due_in_a_minute(f"began-{n}") for n in range(10)))
    for number in range(10):
        await one.store.start(due_in_a_minute(f"new-{number}"))
    world.clock.advance(MINUTE)

    counts = await asyncio.gather(*(worker.store.overdue() for worker in (one, two) * 2))

    assert sum(counts) == 20
    assert await one.store.counts() == {"running": 10, "timed_out": 10}
    for number in range(10):
        assert len(await inbox(one.store, f"uid-began-{number}")) == 1


async def test_a_look_at_the_chores_shows_a_deadline_until_it_was_told(world: World) -> None:
    worker = await world.worker()
    await worker.given(due_in_a_minute("a"))
    assert (await worker.store.maintenance_due())._replace(at=0) == NOTHING

    world.clock.advance(MINUTE)
    assert (await worker.store.maintenance_due())._replace(at=0) == NOTHING._replace(overdue=True)

    await worker.store.overdue()
    assert (await worker.store.maintenance_due())._replace(at=0) == NOTHING


async def test_the_next_due_time_may_be_a_deadline(world: World) -> None:
    worker = await world.worker()
    now = world.clock.wall()
    [run] = await worker.given(due_in_a_minute("a"))
    assert await worker.store.next_due() == now + MINUTE

    await worker.store.start(a_run("b")._replace(delay_in=SECOND))
    assert await worker.store.next_due() == now + SECOND
    assert await worker.store.next_due(now + SECOND) == now + MINUTE
    assert await worker.store.next_due(now + MINUTE) is None

    await worker.commit(run, move=SUCCEEDED)
    assert await worker.store.next_due(now + SECOND) is None
