"""Reading: lists by pages, ends of many runs at once, and which queues somebody serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MINUTE
from onward.core.lease import GONE_WORKERS_KEPT, LEASE
from onward.model.runs import Move
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_message,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def test_runs_are_listed_newest_first_page_by_page(world: World) -> None:
    store = await world.store()
    for number in range(7):
        await store.start(a_run(str(number)))

    pages, before = [], None
    while page := await store.list_runs(limit=3, before=before):
        pages.append([run.id for run in page])
        before = page[-1].uid

    assert pages == [["6", "5", "4"], ["3", "2", "1"], ["0"]]


async def test_a_listed_run_is_the_run_as_it_stands(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    assert await store.list_runs() == [await store.run("uid-a")]


async def test_of_many_runs_those_are_told_that_are_over_or_paused(world: World) -> None:
    worker = await world.worker()
    over, paused, waiting, running = await worker.owning("over", "paused", "waiting", "running")
    await worker.commit(over, move=SUCCEEDED)
    await worker.commit(paused, move=Move("paused", "approval"))
    await worker.commit(waiting, an_open_record(waiting, "w#1"), move=Move("waiting"))
    asked = [run.uid for run in (over, paused, waiting, running)]

    ends = {end.uid: end for end in await worker.store.ends([*asked, "nobody"])}

    assert set(ends) == {over.uid, paused.uid}
    assert ends[over.uid] == await worker.store.end(over.uid)
    assert ends[paused.uid].reason == "approval"
    assert await worker.store.ends([]) == []


async def test_a_run_that_is_asked_for_twice_is_told_once(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))
    await worker.commit(run, a_record(run, 1), move=SUCCEEDED)
    twice = [run.uid, run.uid]

    assert len((await worker.store.history(twice))[run.uid]) == 1
    assert len((await worker.store.look(twice))[run.uid]) == 1
    assert len(await worker.store.ends(twice)) == 1


async def test_the_next_due_time_may_be_asked_for_after_another(world: World) -> None:
    store = await world.store()
    now = world.clock.wall()
    for minutes in (1, 2):
        await store.start(a_run(str(minutes))._replace(delay_in=minutes * MINUTE))

    assert await store.next_due() == now + MINUTE
    assert await store.next_due(now + MINUTE) == now + 2 * MINUTE
    assert await store.next_due(now + 2 * MINUTE) is None


async def test_a_queue_is_served_while_a_worker_for_it_lives(world: World) -> None:
    alive, late = await world.worker(), await world.worker(lease=LEASE)
    await register(alive, "default\nslow")
    await register(late, "late")
    assert await alive.store.served_queues() == {"default", "slow", "late"}

    world.clock.advance(LEASE + 1)
    assert await alive.store.served_queues() == {"default", "slow"}

    await alive.leave()
    await alive.store.unregister(alive.name)
    assert await alive.store.served_queues() == set()


async def test_a_worker_may_be_registered_again(world: World) -> None:
    worker = await world.worker()
    await register(worker, "default")
    await worker.store.unregister(worker.name)

    await register(worker, "default")

    assert await worker.store.served_queues() == {"default"}
    rows = await world.sql("SELECT worker, pid, left_at FROM onward_worker")
    assert [tuple(row) for row in rows] == [(worker.name, 7, None)]


async def test_a_worker_that_left_is_listed_for_a_day(world: World) -> None:
    store = (await world.worker()).store
    gone = await world.worker()
    await register(gone, "default")
    await gone.leave()
    await store.unregister(gone.name)

    world.clock.advance(GONE_WORKERS_KEPT)
    assert await store.remove_workers() == 0
    assert await listed(world) == [gone.name]

    world.clock.advance(1)
    assert await store.remove_workers() == 1
    assert await listed(world) == []


async def test_a_worker_that_died_is_listed_for_a_day_after_it_was_found_dead(world: World) -> None:
    heir = await world.worker(lease=LEASE)
    dead = await world.worker(lease=LEASE)
    [run] = await dead.owning("a")
    for worker in (heir, dead):
        await register(worker, "default")
    world.clock.advance(10 * GONE_WORKERS_KEPT)
    assert await heir.store.remove_workers() == 0, "it has a lease, which may be renewed"

    await dead.leave()
    await heir.store.remove_workers()
    world.clock.advance(GONE_WORKERS_KEPT + 1)
    assert await heir.store.remove_workers() == 0, "it has a run"

    assert await heir.renew() is not None
    assert [claimed.uid for claimed in await heir.adopt()] == [run.uid]
    assert await heir.store.remove_workers() == 0, "it is found dead only now"
    world.clock.advance(GONE_WORKERS_KEPT + 1)
    assert await heir.store.remove_workers() == 1
    assert await listed(world) == [heir.name]


async def test_workers_are_removed_a_few_at_a_time(world: World) -> None:
    store = (await world.worker()).store
    for _ in range(3):
        gone = await world.worker(store)
        await register(gone, "default")
        await gone.leave()
        await store.unregister(gone.name)
    world.clock.advance(GONE_WORKERS_KEPT + 1)

    assert [await store.remove_workers(2) for _ in range(3)] == [2, 1, 0]


async def test_workers_of_another_namespace_are_not_removed(world: World) -> None:
    theirs = await world.worker(await world.store("theirs"))
    await register(theirs, "default")
    await theirs.leave()
    await theirs.store.unregister(theirs.name)
    world.clock.advance(GONE_WORKERS_KEPT + 1)

    assert await (await world.store()).remove_workers() == 0
    assert await theirs.store.remove_workers() == 1


async def listed(world: World) -> list[str]:
    rows = await world.sql("SELECT worker FROM onward_worker ORDER BY worker")
    return [row[0] for row in rows]


async def register(worker: Worker, queues: str) -> None:
    await worker.store.register(
        {
            "worker": worker.name,
            "host": "here",
            "pid": 7,
            "version": None,
            "queues": queues,
            "tags": "",
            "names": "greet",
            "schedules": "",
        }
    )
