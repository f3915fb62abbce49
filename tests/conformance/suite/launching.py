"""Runs of handlers: started for those with work, one at a time in a lane, consumers first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.model.pipelines import HandlerSpec
from onward.store.pipelines.declaring import declare as declare_pipeline
from onward.store.pipelines.launching import MAX_CANDIDATES, Launcher, launch
from onward.store.pipelines.publishing import publish as publish_events
from tests.conformance.suite.pipeline import (
    ADD,
    HANDLERS,
    LOG,
    NAMES,
    POLL,
    a_pipeline,
    an_event,
    complete,
    consumer,
    declare,
    kept,
    launched,
    prepare,
    prepared,
    publish,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World

PRODUCER = HandlerSpec(POLL, "producer", (), ("mail.received",))


async def raised(world: World) -> None:
    await world.sql(f"UPDATE onward_handler SET published = published + 1 WHERE handler = '{POLL}'")


async def test_a_consumer_with_a_pending_event_gets_a_run(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")

    [run] = await launched(worker)

    assert (run.kind, run.name, run.handler) == ("consumer", f"consumer {ADD}", ADD)
    assert (run.id, run.handler_key) == (run.uid, "")


async def test_a_handler_without_work_gets_none(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)

    assert await launched(worker) == []


async def test_a_worker_starts_only_what_it_offers(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")

    assert await launched(worker, LOG) == []
    assert await launch(worker.store, [ADD], ["other"], 10) == 0


async def test_one_run_of_a_serial_pipeline_is_open_at_a_time(world: World) -> None:
    """E7: whoever asks, and whichever of its handlers have work."""
    worker, other = await world.worker(), await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1")

    made = await asyncio.gather(
        *(launch(each.store, HANDLERS, ["default"], 10) for each in (worker, other, worker, other))
    )

    assert sum(made) == 1
    assert await launch(worker.store, HANDLERS, ["default"], 10) == 0


async def test_keys_of_a_parallel_pipeline_run_at_once(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG, parallel=True)
    for key in ("a", "b"):
        await publish(worker.store, f"m-{key}", key=key)

    runs = await launched(worker)

    assert sorted((run.handler, run.handler_key) for run in runs) == [
        (ADD, "a"), (ADD, "b"), (LOG, "a"), (LOG, "b"),
    ]  # fmt: skip
    assert await launched(worker) == []


async def test_no_more_runs_start_than_the_worker_has_slots_for(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, parallel=True)
    for key in "abcd":
        await publish(worker.store, f"m-{key}", key=key)

    assert [run.handler_key for run in await launched(worker, limit=2)] == ["a", "b"]


async def test_consumers_go_before_producers_and_old_events_before_new_ones(world: World) -> None:
    worker = await world.worker()
    spec = a_pipeline(PRODUCER, consumer(ADD), consumer(LOG, "rows.added"))
    await declare_pipeline(worker.store, spec)
    await raised(world)
    await publish(worker.store, "r1", topic="rows.added")
    world.clock.advance(SECOND)
    await publish(worker.store, "m1")
    order = []

    for _ in range(3):
        [run] = await launched(worker)
        order.append(run.handler)
        if run.handler != POLL:
            await prepare(worker, run, seen=1)
        await complete(worker, run, seq=1 if run.handler == POLL else 2)

    assert order == [LOG, ADD, POLL]
    assert await launched(worker) == []


async def test_a_consumer_whose_events_are_gone_gets_no_run(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    await world.sql("UPDATE onward_delivery SET state = 'skipped'")
    await world.sql("UPDATE onward_subscription SET skipped = 1")

    assert await launched(worker) == []
    row = await kept(world)
    assert (row.published, row.seen) == (1, 1)


async def test_a_consumer_that_reserved_nothing_is_not_run_again_until_something_comes(
    world: World,
) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await prepare(worker, run, seen=1)
    await complete(worker, run)

    assert await launched(worker) == []
    await publish(worker.store, "m2")
    assert len(await launched(worker)) == 1


async def test_a_consumer_runs_until_a_preparation_finds_nothing(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")

    for message in ("m1", "m2"):
        run = await prepared(worker, message)
        await complete(worker, run)

    assert await launched(worker) == []  # nothing is pending: no run has to find that out


async def test_a_consumer_runs_when_its_wake_time_has_come(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await prepare(worker, run, seen=1, wake_in=60 * SECOND)
    await complete(worker, run)
    now = await worker.store.now()

    assert await worker.store.next_due(now) == now + 60 * SECOND
    assert await launched(worker) == []
    world.clock.advance(60 * SECOND)
    await worker.renew()
    [woken] = await launched(worker)
    await prepare(worker, woken)
    await complete(worker, woken)
    assert await launched(worker) == []


async def test_a_producer_has_seen_its_work_once_its_run_exists(world: World) -> None:
    worker = await world.worker()
    await declare_pipeline(worker.store, a_pipeline(PRODUCER))
    await raised(world)
    await raised(world)

    [run] = await launched(worker)
    await complete(worker, run, seq=1)

    assert run.kind == "producer"
    assert await launched(worker) == []


async def test_a_paused_pipeline_starts_nothing(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")

    await world.sql("UPDATE onward_pipeline SET paused = 1")
    assert await launched(worker) == []
    await world.sql("UPDATE onward_pipeline SET paused = 0")
    await world.sql(
        "INSERT INTO onward_pipeline (namespace, name, paused, updated_at)"
        " VALUES ('default', '', 1, 0)"
    )
    assert await launched(worker) == []
    await world.sql("UPDATE onward_pipeline SET paused = 0")
    assert len(await launched(worker)) == 1


async def test_a_blocked_handler_stops_its_lane_and_no_other(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG, parallel=True)
    await publish(worker.store, "m1", key="a")
    await publish(worker.store, "m2", key="b")
    await world.sql(
        f"UPDATE onward_handler SET blocked_by = 'x' WHERE handler = '{ADD}' AND key = 'a'"
    )

    runs = await launched(worker)

    assert sorted((run.handler, run.handler_key) for run in runs) == [
        (ADD, "b"), (LOG, "a"), (LOG, "b"),
    ]  # fmt: skip


async def test_a_removed_handler_gets_no_run(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1")
    await declare(worker.store, LOG)

    assert [run.handler for run in await launched(worker)] == [LOG]


async def test_no_key_waits_for_all_that_sort_before_it(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, parallel=True)
    names = [f"k{number:03}" for number in range(MAX_CANDIDATES + 10)]
    events = [an_event(name, key=name) for name in names]
    await worker.store.write(lambda tx: publish_events(tx, events, (), None))
    launcher = Launcher(worker.store)

    for _ in range(2):
        assert len(await launcher.launch([ADD], ["default"], 5)) == 5
    assert len(await launcher.launch([ADD], ["default"], 5)) == 5

    keys = [run.handler_key for run in await worker.claim(20, names=NAMES)]
    assert sorted(keys) == sorted([*names[:10], *names[MAX_CANDIDATES : MAX_CANDIDATES + 5]])
