"""A consumer's whole end is one commit: consume, publish, save, finish and wake, or nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.lease import Fate
from onward.model.deliveries import DeliveryMove, HandlerState, Publish
from onward.model.runs import Move
from onward.store import Attachments
from tests.conformance.suite.effects import ledger
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    TOPIC,
    Delivery,
    Handler,
    consumer,
    deliveries,
    kept,
    publish,
    subscribe,
)
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_message,
    a_record,
    an_effect,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from onward.store import CommitOutcome
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

ROWS = "rows.added"


async def a_consumer(world: World) -> tuple[Worker, ClaimedRun]:
    """Return a consumer's run about to end, with a waiting run that its end shall wake."""
    worker = await world.worker()
    [waiting] = await worker.owning("waiting")
    await worker.commit(waiting, an_open_record(waiting, "w#1"), move=Move("waiting"))
    await subscribe(worker.store, ADD)
    await subscribe(worker.store, LOG, "rows/count", topic=ROWS)
    await publish(worker, "m1", "m2")
    run = await consumer(worker, "m1", "m2")
    intent = an_effect(run, 1, "in_flight")
    await worker.commit(run, a_record(run, 1), attached=Attachments(effects=(intent,)))
    return worker, run


async def end(
    worker: Worker, run: ClaimedRun, *, effect_version: int = 2, state_version: int = 1
) -> CommitOutcome:
    """Commit everything that a consumer's end consists of."""
    return await worker.commit(
        run,
        a_record(run, 2),
        move=SUCCEEDED._replace(seq=2, phase="committed"),
        messages=(a_message("uid-waiting", "done"),),
        attached=Attachments(
            effects=(an_effect(run, effect_version, "applied"),),
            deliveries=tuple(
                DeliveryMove(ADD, event, "reserved", "consumed")
                for event in ("event-m1", "event-m2")
            ),
            published=(Publish("event-r1", ROWS, "r1", b"j{}"),),
            states=(HandlerState(ADD, "", state_version, b"jcursor"),),
        ),
    )


async def everything(world: World, worker: Worker) -> list[Any]:
    """Return all that a consumer's end could change."""
    store = worker.store
    return [
        await store.run("uid-consumer"),
        await store.run("uid-waiting"),
        await store.end("uid-consumer"),
        await store.history(["uid-consumer", "uid-waiting"]),
        await store.look(["uid-consumer", "uid-waiting"]),
        await ledger(store, "key-consumer"),
        *[await deliveries(store, handler) for handler in (ADD, LOG, "rows/count")],
        *[await kept(store, handler) for handler in (ADD, LOG, "rows/count")],
        [tuple(row) for row in await world.sql("SELECT uid FROM onward_event ORDER BY uid")],
    ]


async def test_a_consumers_end_is_one_commit(world: World) -> None:
    worker, run = await a_consumer(world)

    outcome = await end(worker, run)

    store = worker.store
    assert outcome.fate is Fate.DONE
    row = await store.run(run.uid)
    assert (row.state, row.phase, row.seq) == ("succeeded", "committed", 2)
    assert (await store.end(run.uid)).result == b"j42"
    assert (await store.run("uid-waiting")).state == "ready"
    assert await deliveries(store, ADD) == [
        Delivery("event-m1", "consumed", run.uid, 1),
        Delivery("event-m2", "consumed", run.uid, 1),
    ]
    for handler in (LOG, "rows/count"):
        assert await deliveries(store, handler) == [Delivery("event-r1", "pending", None, 1)]
        assert await kept(store, handler) == Handler(None, 0, 1, None)
    assert await kept(store, ADD) == Handler(b"jcursor", 1, 2, None)
    effect = await ledger(store, "key-consumer")
    assert effect is not None
    assert (effect["state"], effect["version"]) == ("applied", 2)


async def test_a_consumer_may_publish_to_a_topic_that_it_subscribes_to(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")

    outcome = await worker.commit(
        run,
        move=SUCCEEDED,
        attached=Attachments(
            deliveries=(DeliveryMove(ADD, "event-m1", "reserved", "consumed"),),
            published=(Publish("event-m2", TOPIC, "m2", b"j{}"),),
            states=(HandlerState(ADD, "", 1, b"j1"),),
        ),
    )

    assert outcome.fate is Fate.DONE
    assert [(d.event, d.state) for d in await deliveries(worker.store, ADD)] == [
        ("event-m1", "consumed"), ("event-m2", "pending"),
    ]  # fmt: skip
    assert await kept(worker.store, ADD) == Handler(b"j1", 1, 2, None)


async def test_an_end_is_refused_whole_when_one_event_is_not_its_own(world: World) -> None:
    worker, run = await a_consumer(world)
    await world.sql("UPDATE onward_delivery SET run = 'uid-waiting' WHERE event = 'event-m2'")
    before = await everything(world, worker)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.BUSY
    assert await everything(world, worker) == before


async def test_an_end_is_refused_whole_when_one_event_was_released(world: World) -> None:
    worker, run = await a_consumer(world)
    await world.sql(
        "UPDATE onward_delivery SET run = NULL, state = 'pending' WHERE event = 'event-m1'"
    )
    before = await everything(world, worker)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.BUSY
    assert await everything(world, worker) == before


async def test_an_end_is_refused_whole_when_the_state_moved(world: World) -> None:
    worker, run = await a_consumer(world)
    before = await everything(world, worker)

    outcome = await end(worker, run, state_version=2)

    assert outcome.fate is Fate.BUSY
    assert await everything(world, worker) == before


async def test_an_end_is_refused_whole_when_the_effect_moved(world: World) -> None:
    worker, run = await a_consumer(world)
    before = await everything(world, worker)

    outcome = await end(worker, run, effect_version=3)

    assert outcome.fate is Fate.BUSY
    assert await everything(world, worker) == before


async def test_an_end_of_a_lost_owner_changes_nothing(world: World) -> None:
    worker, run = await a_consumer(world)
    await worker.leave()
    before = await everything(world, worker)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.LOST
    assert await everything(world, worker) == before


async def test_a_repeated_end_is_done_and_changes_nothing_more(world: World) -> None:
    worker, run = await a_consumer(world)
    await end(worker, run)
    before = await everything(world, worker)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.DONE
    assert await everything(world, worker) == before


async def test_an_end_that_was_refused_harms_no_neighbour_in_its_batch(world: World) -> None:
    worker, run = await a_consumer(world)
    neighbours = await worker.owning(*map(str, range(10)))

    refused, *others = await asyncio.gather(
        end(worker, run, effect_version=3),
        *(worker.commit(other, a_record(other, 1), move=SUCCEEDED) for other in neighbours),
    )

    assert refused.fate is Fate.BUSY
    assert {other.fate for other in others} == {Fate.DONE}
