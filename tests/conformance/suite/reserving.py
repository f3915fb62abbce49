"""Preparations of consumers: they reserve events, all or none, and note what they have seen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import Fate
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    Delivery,
    a_step,
    declare,
    deliveries,
    kept,
    launched,
    peeked,
    preparation,
    prepare,
    prepared,
    publish,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_a_preparation_reserves_its_events_for_its_handler_alone(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1", "m2")

    run = await prepared(worker, "m1")

    assert await deliveries(world) == [
        Delivery("event-m1", "reserved", run.uid, 1),
        Delivery("event-m2", "pending", None, 1),
    ]
    assert {row.state for row in await deliveries(world, LOG)} == {"pending"}
    assert [event.message for event in await peeked(worker.store)] == ["m2"]


async def test_an_event_that_is_not_pending_refuses_the_whole_preparation(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")
    [run] = await launched(worker)
    both = await peeked(worker.store)
    await world.sql("UPDATE onward_delivery SET state = 'skipped' WHERE event = 'event-m2'")
    await world.sql("UPDATE onward_subscription SET skipped = 1")

    outcome = await worker.commit(
        run, a_step(run, "prepare", 1), attached=preparation(run, *both, wake_in=SECOND)
    )

    assert outcome.fate is Fate.BUSY
    assert (await deliveries(world))[0] == Delivery("event-m1", "pending", None, 1)
    assert (await worker.store.history([run.uid]))[run.uid] == []
    assert (await kept(world)).wake_at is None


async def test_an_event_that_became_pending_again_since_it_was_read_is_refused(
    world: World,
) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    stale = await peeked(worker.store)
    await world.sql("UPDATE onward_delivery SET attempt = 2")

    outcome = await worker.commit(run, attached=preparation(run, *stale))

    assert outcome.fate is Fate.BUSY


async def test_an_event_that_is_not_there_cannot_be_reserved(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    [event] = await peeked(worker.store)

    outcome = await worker.commit(run, attached=preparation(run, event._replace(uid="nothing")))

    assert outcome.fate is Fate.BUSY


async def test_an_event_of_another_key_cannot_be_reserved(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, parallel=True)
    await publish(worker.store, "m1", key="a")
    await publish(worker.store, "m2", key="b")
    a, _ = sorted(await launched(worker), key=lambda run: run.handler_key)
    [of_b] = await peeked(worker.store, key="b")

    outcome = await worker.commit(a, attached=preparation(a, of_b))

    assert outcome.fate is Fate.BUSY


async def test_a_repeated_preparation_is_done_and_changes_nothing(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    attached = preparation(run, *await peeked(worker.store), wake_in=60 * SECOND)
    record = a_step(run, "prepare", 1)
    await worker.commit(run, record, attached=attached)
    world.clock.advance(SECOND)
    before = await deliveries(world), await kept(world)

    outcome = await worker.commit(run, record, attached=attached)

    assert outcome.fate is Fate.DONE
    assert (await deliveries(world), await kept(world)) == before


async def test_a_lost_owner_reserves_nothing(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await worker.leave()

    outcome = await prepare(worker, run, "m1")

    assert outcome.fate is Fate.LOST
    assert await deliveries(world) == [Delivery("event-m1", "pending", None, 1)]


async def test_the_key_of_an_effect_follows_from_what_is_reserved(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    attached = preparation(run, *await peeked(worker.store))

    await worker.commit(run, a_step(run, "prepare", 1), attached=attached)

    assert attached.pipeline is not None
    assert attached.pipeline.prepared is not None
    assert (await worker.store.run(run.uid)).origin == attached.pipeline.prepared.origin


async def test_a_wake_time_is_kept_apart_from_the_state(world: World) -> None:
    """E2: setting one does not touch the other."""
    worker = await world.worker()
    await declare(worker.store, ADD)
    await world.sql("UPDATE onward_handler SET state_version = 3, saved_by = 'uid-x'")
    await publish(worker.store, "m1")
    [run] = await launched(worker)

    await prepare(worker, run, wake_in=60 * SECOND)

    row = await kept(world)
    assert (row.version, row.wake_at) == (3, await worker.store.now() + 60 * SECOND)


async def test_every_preparation_replaces_the_wake_time(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await world.sql("UPDATE onward_handler SET wake_at = 1")
    [run] = await launched(worker)

    await prepare(worker, run)

    assert (await kept(world)).wake_at is None


async def test_a_preparation_that_reserves_nothing_has_seen_what_it_had_read(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await publish(worker.store, "m2")

    await prepare(worker, run, seen=1)

    row = await kept(world)
    assert (row.published, row.seen) == (2, 1)


async def test_a_preparation_that_reserves_leaves_its_handler_with_work(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)

    await prepare(worker, run, "m1", seen=1)

    assert (await kept(world)).seen == 0


async def test_of_two_runs_that_reserve_one_event_together_one_gets_it(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [one] = await launched(worker)
    event = await peeked(worker.store)
    await world.sql("UPDATE onward_run SET lane = NULL")  # as no store lets it come to
    [two] = await launched(other)

    outcomes = await asyncio.gather(
        worker.commit(one, attached=preparation(one, *event)),
        other.commit(two, attached=preparation(two, *event)),
    )

    assert sorted(outcome.fate for outcome in outcomes) == [Fate.BUSY, Fate.DONE]
