"""Producers: a slot of their schedule gives them work, and their runs are made by workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import HOUR, MINUTE
from onward.engine.pipelines.declaring import declare
from onward.engine.schedules.local import LocalSchedules
from onward.model.pipelines import HandlerSpec
from onward.model.runs import Move
from tests.conformance.suite.handler_ends import end_run
from tests.conformance.suite.pipeline import (
    ADD,
    POLL,
    TOPIC,
    a_pipeline,
    complete,
    consumer,
    kept,
    launched,
)
from tests.conformance.suite.samples import a_run
from tests.conformance.suite.scheduling import a_schedule, decide, dispositions

if TYPE_CHECKING:
    from onward.store import Store
    from tests.conformance.suite.world import World

HOURLY = a_schedule(workflow=f"producer {POLL}", overlap="coalesce")
PRODUCER = HandlerSpec(POLL, "producer", (), (TOPIC,), schedule=HOURLY)


async def open_runs(store: Store) -> int:
    return (await LocalSchedules(store).get("hourly")).open_runs


async def test_a_slot_gives_the_producer_work_and_its_run_the_time(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    slot = world.clock.wall() + HOUR
    world.clock.advance(HOUR + MINUTE)

    await decide(worker.store)
    assert await open_runs(worker.store) == 1
    [run] = await launched(worker)

    assert (run.kind, run.scheduled_at) == ("producer", slot)
    assert run.id.startswith("hourly@")
    [newest] = await LocalSchedules(worker.store).slots("hourly", 1)
    assert newest.run == run.id


async def test_slots_of_a_producer_that_is_busy_are_coalesced(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    world.clock.advance(HOUR)
    await decide(worker.store)
    [run] = await launched(worker)
    for _ in range(3):
        world.clock.advance(HOUR)
        await decide(worker.store)

    assert await open_runs(worker.store) == 1
    await complete(worker, run, seq=1)
    await decide(worker.store)
    [again] = await launched(worker)
    await complete(worker, again, seq=1)

    assert await launched(worker) == []
    assert await dispositions(worker.store) == {"started": 2, "coalesced": 2}


async def test_a_slot_whose_run_has_not_begun_is_not_doubled(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    for _ in range(2):
        world.clock.advance(HOUR)
        await decide(worker.store)

    [run] = await launched(worker)
    await complete(worker, run, seq=1)
    await decide(worker.store)

    [again] = await launched(worker)
    assert again.id != run.id


async def test_a_producer_that_failed_keeps_its_schedule_waiting(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    world.clock.advance(HOUR)
    await decide(worker.store)
    [run] = await launched(worker)

    await end_run(worker, run, Move("failed", "logic"))

    assert (await kept(world, POLL)).blocked_by == run.uid
    world.clock.advance(HOUR)
    await decide(worker.store)
    assert await launched(worker) == []


async def test_a_run_that_has_the_id_of_the_slot_does_not_stop_the_producer(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    world.clock.advance(HOUR)
    await decide(worker.store)
    [[taken]] = await world.sql(f"SELECT next_id FROM onward_handler WHERE handler = '{POLL}'")
    await worker.store.start(a_run(taken))

    [run] = await launched(worker)

    assert (run.handler, run.id) == (POLL, run.uid)


async def test_a_producer_that_is_gone_loses_its_schedule(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER, consumer(ADD)))

    await declare(worker.store, a_pipeline(consumer(ADD)))

    assert await LocalSchedules(worker.store).all() == []


async def test_a_declaration_repeated_leaves_an_operators_pause_of_the_schedule(
    world: World,
) -> None:
    worker = await world.worker()
    await declare(worker.store, a_pipeline(PRODUCER))
    await LocalSchedules(worker.store).pause("hourly")

    await declare(worker.store, a_pipeline(PRODUCER))

    assert (await LocalSchedules(worker.store).get("hourly")).state == "paused"
