"""Events and deliveries: published to every subscriber, reserved by one run, ended once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.model.deliveries import DeliveryMove
from onward.model.runs import Move
from onward.store import Attachments
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    Delivery,
    an_event,
    consumer,
    deliveries,
    kept,
    moving,
    publish,
    subscribe,
)
from tests.conformance.suite.samples import SUCCEEDED, a_record, a_run

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_an_event_reaches_every_handler_that_subscribes(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD, LOG)
    await subscribe(worker.store, "other/handler", topic="other")

    await publish(worker, "m1", "m2")

    pending = [Delivery("event-m1", "pending", None, 1), Delivery("event-m2", "pending", None, 1)]
    assert await deliveries(worker.store, ADD) == pending
    assert await deliveries(worker.store, LOG) == pending
    assert await deliveries(worker.store, "other/handler") == []


async def test_every_subscriber_is_told_how_much_was_published(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD, LOG)

    await publish(worker, "m1", "m2")
    await publish(worker, "m3")

    for handler in (ADD, LOG):
        row = await kept(worker.store, handler)
        assert row is not None
        assert (row.state, row.version, row.published) == (None, 0, 3)


async def test_a_message_id_is_published_once_a_topic(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    [again] = await worker.owning("again")
    event = an_event("m1")._replace(uid="event-other", payload=b"other")

    outcome = await worker.commit(again, attached=Attachments(published=(event,)))

    assert outcome.fate is Fate.DONE
    assert len(await deliveries(worker.store, ADD)) == 1
    row = await kept(worker.store, ADD)
    assert row is not None
    assert row.published == 1
    [[uid, payload]] = await world.sql("SELECT uid, payload FROM onward_event")
    assert (uid, bytes(payload)) == ("event-m1", b"j{}")


async def test_an_event_that_nobody_subscribes_to_is_kept(world: World) -> None:
    worker = await world.worker()

    await publish(worker, "m1")

    [[run, message]] = await world.sql("SELECT run, message FROM onward_event")
    assert (run, message) == ("uid-publish-m1", "m1")


async def test_events_published_together_by_many_runs_are_all_spread(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD, LOG)
    runs = await worker.owning(*map(str, range(20)))

    await asyncio.gather(
        *(worker.commit(run, attached=Attachments(published=(an_event(run.id),))) for run in runs)
    )

    for handler in (ADD, LOG):
        assert len(await deliveries(worker.store, handler)) == 20
        row = await kept(worker.store, handler)
        assert row is not None
        assert row.published == 20


async def test_a_prepare_reserves_its_events(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD, LOG)
    await publish(worker, "m1", "m2")

    run = await consumer(worker, "m1")

    assert await deliveries(worker.store, ADD) == [
        Delivery("event-m1", "reserved", run.uid, 1),
        Delivery("event-m2", "pending", None, 1),
    ]
    assert {row.state for row in await deliveries(worker.store, LOG)} == {"pending"}


async def test_an_event_that_another_run_reserved_refuses_the_whole_commit(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1", "m2")
    owner = await consumer(worker, "m1")
    [late] = await worker.owning("late")

    outcome = await worker.commit(
        late, a_record(late, 1), attached=moving(ADD, "pending", "reserved", "m2", "m1")
    )

    assert outcome.fate is Fate.BUSY
    assert await deliveries(worker.store, ADD) == [
        Delivery("event-m1", "reserved", owner.uid, 1),
        Delivery("event-m2", "pending", None, 1),
    ]
    assert (await worker.store.history([late.uid]))[late.uid] == []


async def test_an_event_that_is_not_there_cannot_be_reserved(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    [run] = await worker.owning("a")

    outcome = await worker.commit(run, attached=moving(ADD, "pending", "reserved", "nothing"))

    assert outcome.fate is Fate.BUSY


async def test_two_runs_that_reserve_one_event_together_do_not_both_get_it(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    [one], [two] = await worker.owning("one"), await other.owning("two")
    reserve = moving(ADD, "pending", "reserved", "m1")

    outcomes = await asyncio.gather(
        worker.commit(one, attached=reserve), other.commit(two, attached=reserve)
    )

    assert sorted(outcome.fate for outcome in outcomes) == [Fate.BUSY, Fate.DONE]


async def test_two_runs_of_one_batch_that_reserve_one_event_do_not_both_get_it(
    world: World,
) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    runs = await worker.owning("1-a", "2-a", "3-b")
    reserve = moving(ADD, "pending", "reserved", "m1")

    outcomes = await asyncio.gather(*(worker.commit(run, attached=reserve) for run in runs))

    done = [r.uid for r, o in zip(runs, outcomes, strict=True) if o.fate is Fate.DONE]
    assert [delivery.run for delivery in await deliveries(worker.store, ADD)] == done


async def test_a_released_event_counts_the_attempt_and_can_be_reserved_again(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")

    await worker.commit(
        run, move=Move("failed", "logic"), attached=moving(ADD, "reserved", "pending", "m1")
    )

    assert await deliveries(worker.store, ADD) == [Delivery("event-m1", "pending", None, 2)]
    row = await kept(worker.store, ADD)
    assert row is not None
    assert row.published == 2
    again = await consumer(worker, "m1", id="again")
    assert await deliveries(worker.store, ADD) == [Delivery("event-m1", "reserved", again.uid, 2)]


async def test_a_skipped_event_keeps_the_reason(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")
    skip = DeliveryMove(ADD, "event-m1", "reserved", "skipped", "quarantined")

    await worker.commit(run, attached=Attachments(deliveries=(skip,)))

    assert await deliveries(worker.store, ADD) == [Delivery("event-m1", "skipped", run.uid, 1)]
    assert [list(r) for r in await world.sql("SELECT reason FROM onward_delivery")] == [
        ["quarantined"]
    ]


async def test_a_consumed_event_never_changes(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")
    await worker.commit(run, attached=moving(ADD, "reserved", "consumed", "m1"))
    before = await deliveries(worker.store, ADD)
    [other] = await worker.owning("other")

    for was, becomes in (("pending", "reserved"), ("reserved", "pending"), ("consumed", "pending")):
        outcome = await worker.commit(other, attached=moving(ADD, was, becomes, "m1"))
        assert outcome.fate is Fate.BUSY

    assert await deliveries(worker.store, ADD) == before


async def test_an_owner_that_lost_its_lease_moves_no_event(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD, LOG)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")
    await worker.leave()
    consume = moving(ADD, "reserved", "consumed", "m1")
    attached = Attachments(deliveries=consume.deliveries, published=(an_event("m2"),))

    outcome = await worker.commit(run, move=SUCCEEDED, starts=(a_run("c"),), attached=attached)

    assert outcome.fate is Fate.LOST
    assert await deliveries(worker.store, ADD) == [Delivery("event-m1", "reserved", run.uid, 1)]
    assert len(await deliveries(worker.store, LOG)) == 1
