"""A handler's whole end is one commit: consume, publish, save, finish and wake, or nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.model.pipelines import Completion, HandlerSpec, NewInput, PipelineWrite
from onward.model.runs import Move
from onward.store import Attachments
from onward.store.pipelines.declaring import declare as declare_pipeline
from tests.conformance.suite.effects import ledger
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    POLL,
    ROWS,
    TOPIC,
    Delivery,
    a_pipeline,
    a_step,
    an_effect_record,
    an_event,
    complete,
    completion,
    consumer,
    declare,
    deliveries,
    kept,
    launched,
    prepare,
    prepared,
    publish,
)
from tests.conformance.suite.repeating import all_rows
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


MAIL = NewInput("input-1", "mail", "gmail", "email", "1", "Mail 1")


async def a_consumer(world: World) -> tuple[Worker, ClaimedRun]:
    """Return a consumer's run about to end, with a waiting run that its end shall wake."""
    worker = await world.worker()
    [waiting] = await worker.owning("waiting")
    await worker.commit(waiting, an_open_record(waiting, "w#1"), move=Move("waiting"))
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD), consumer(LOG, ROWS)))
    await publish(worker.store, "m1", "m2", inputs=[MAIL])
    run = await prepared(worker, "m1", "m2")
    intent = an_effect(run, 1, "in_flight")
    attached = Attachments(effects=(intent,))
    await worker.commit(run, an_effect_record(run, None), attached=attached)
    return worker, run


async def end(
    worker: Worker, run: ClaimedRun, *, effect_version: int = 2, state_version: int = 0
) -> CommitOutcome:
    """Commit everything that a consumer's end consists of."""
    return await worker.commit(
        run,
        an_effect_record(run, 2),
        a_step(run, "next", 3),
        move=SUCCEEDED._replace(seq=3, phase="committed"),
        messages=(a_message("uid-waiting", "done"),),
        attached=completion(
            run,
            an_event("r1", ROWS),
            done=Completion(saves_state=True, state=b"jcursor", state_version=state_version),
            effects=(an_effect(run, effect_version, "applied"),),
        ),
    )


async def counts(world: World) -> list[tuple[Any, ...]]:
    rows = await world.sql(
        "SELECT handler, consumed, skipped FROM onward_subscription ORDER BY handler"
    )
    return [tuple(row) for row in rows]


async def tallies(world: World) -> list[tuple[Any, ...]]:
    rows = await world.sql("SELECT uid, open, events FROM onward_input ORDER BY uid")
    return [tuple(row) for row in rows]


async def test_a_consumers_end_is_one_commit(world: World) -> None:
    worker, run = await a_consumer(world)

    outcome = await end(worker, run)

    store = worker.store
    assert outcome.fate is Fate.DONE
    row = await store.run(run.uid)
    assert (row.state, row.phase, row.seq) == ("succeeded", "committed", 3)
    assert (await store.end(run.uid)).result == b"j42"
    assert (await store.run("uid-waiting")).state == "ready"
    assert await deliveries(world) == [
        Delivery("event-m1", "consumed", run.uid, 1),
        Delivery("event-m2", "consumed", run.uid, 1),
    ]
    assert await deliveries(world, LOG) == [Delivery("event-r1", "pending", None, 1)]
    assert (await kept(world, LOG)).published == 1
    saved = await kept(world)
    assert (saved.state, saved.version, saved.wake_at) == (b"jcursor", 1, None)
    assert await counts(world) == [(ADD, 2, 0), (LOG, 0, 0)]
    effect = await ledger(store, f"key-{run.id}")
    assert effect is not None
    assert (effect["state"], effect["version"]) == ("applied", 2)


async def test_what_a_consumer_publishes_has_the_inputs_of_what_it_reserved(world: World) -> None:
    worker, run = await a_consumer(world)
    assert await tallies(world) == [("input-1", 2, 2)]

    await end(worker, run)

    assert await tallies(world) == [("input-1", 1, 3)]
    rows = await world.sql("SELECT target FROM onward_cause WHERE kind = 'run'")
    assert [row[0] for row in rows] == [run.uid]


async def test_events_of_a_skipped_effect_are_skipped(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", inputs=[MAIL])
    run = await prepared(worker, "m1")

    await complete(worker, run, done=Completion(skips=True))

    assert await deliveries(world) == [Delivery("event-m1", "skipped", run.uid, 1)]
    [[reason]] = await world.sql("SELECT reason FROM onward_delivery")
    assert reason == "effect_skipped"
    assert await counts(world) == [(ADD, 0, 1)]
    assert await tallies(world) == [("input-1", 0, 1)]


async def test_saving_a_state_leaves_the_wake_time_alone(world: World) -> None:
    """E2: the preparation of the same run has set it."""
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await prepare(worker, run, "m1", wake_in=60 * SECOND)

    await complete(worker, run, done=Completion(saves_state=True, state=b"j1"))

    row = await kept(world)
    assert (row.state, row.version, row.wake_at) == (b"j1", 1, world.clock.wall() + 60 * SECOND)


async def test_a_state_that_is_nothing_is_saved_too(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    await world.sql("UPDATE onward_handler SET state_version = 4")
    run = await prepared(worker, "m1")

    await complete(worker, run, done=Completion(saves_state=True, state_version=4))

    row = await kept(world)
    assert (row.state, row.version) == (None, 5)


async def test_a_run_that_returns_no_state_leaves_it_as_it_is(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    await world.sql("UPDATE onward_handler SET state_version = 4, saved_by = 'uid-x'")
    run = await prepared(worker, "m1")

    outcome = await complete(worker, run)

    assert outcome.fate is Fate.DONE
    assert (await kept(world)).version == 4


async def test_each_key_has_a_state_of_its_own(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, parallel=True)
    for key in ("x", "y"):
        await publish(worker.store, f"m-{key}", key=key)
    runs = {run.handler_key: run for run in await launched(worker)}
    for key, run in runs.items():
        await prepare(worker, run, f"m-{key}")

    await asyncio.gather(
        *(
            complete(worker, run, done=Completion(saves_state=True, state=b"j" + key.encode()))
            for key, run in runs.items()
        )
    )

    assert (await kept(world, key="x")).state == b"jx"
    assert (await kept(world, key="y")).state == b"jy"
    assert (await kept(world)).version == 0


async def test_a_producer_publishes_and_saves_its_state_in_one_commit(world: World) -> None:
    worker = await world.worker()
    producer = HandlerSpec(POLL, "producer", (), (TOPIC,))
    await declare_pipeline(worker.store, a_pipeline(producer, consumer(ADD)))
    await world.sql(f"UPDATE onward_handler SET published = 1 WHERE handler = '{POLL}'")
    [run] = await launched(worker)
    write = PipelineWrite(
        POLL,
        completed=Completion(saves_state=True, state=b"jm1"),
        inputs=(MAIL,),
        published=(an_event("m1")._replace(input=MAIL.uid),),
    )

    await worker.commit(
        run,
        a_step(run, "poll", 1),
        move=SUCCEEDED._replace(seq=1),
        attached=Attachments(pipeline=write),
    )

    assert (await kept(world, POLL)).state == b"jm1"
    assert await deliveries(world) == [Delivery("event-m1", "pending", None, 1)]
    assert await tallies(world) == [("input-1", 1, 1)]


async def test_a_workflow_publishes_in_its_commit(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    [run] = await worker.owning("a")
    attached = Attachments(pipeline=PipelineWrite(published=(an_event("m1"),)))

    await worker.commit(run, a_record(run, 1), attached=attached)

    assert await deliveries(world) == [Delivery("event-m1", "pending", None, 1)]
    [[by]] = await world.sql("SELECT run FROM onward_event")
    assert by == run.uid


async def test_events_published_together_by_many_runs_are_all_there(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    runs = await worker.owning(*map(str, range(20)))

    await asyncio.gather(
        *(
            worker.commit(
                run,
                a_record(run, 1),
                attached=Attachments(pipeline=PipelineWrite(published=(an_event(run.id),))),
            )
            for run in runs
        )
    )

    for handler in (ADD, LOG):
        assert len(await deliveries(world, handler)) == 20


async def test_a_consumer_may_publish_to_a_topic_that_it_subscribes_to(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    run = await prepared(worker, "m1")

    outcome = await complete(worker, run, an_event("m2"))

    assert outcome.fate is Fate.DONE
    assert [(d.event, d.state) for d in await deliveries(world)] == [
        ("event-m1", "consumed"), ("event-m2", "pending"),
    ]  # fmt: skip
    assert (await kept(world)).published == 2


async def test_an_end_is_refused_whole_when_the_state_moved(world: World) -> None:
    worker, run = await a_consumer(world)
    before = await all_rows(world)

    outcome = await end(worker, run, state_version=2)

    assert outcome.fate is Fate.BUSY
    assert await all_rows(world) == before


async def test_an_end_is_refused_whole_when_the_effect_moved(world: World) -> None:
    worker, run = await a_consumer(world)
    before = await all_rows(world)

    outcome = await end(worker, run, effect_version=3)

    assert outcome.fate is Fate.BUSY
    assert await all_rows(world) == before


async def test_an_end_of_a_lost_owner_changes_nothing(world: World) -> None:
    worker, run = await a_consumer(world)
    await worker.leave()
    before = await all_rows(world)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.LOST
    assert await all_rows(world) == before


async def test_a_repeated_end_is_done_and_changes_nothing_more(world: World) -> None:
    worker, run = await a_consumer(world)
    await end(worker, run)
    before = await all_rows(world)

    outcome = await end(worker, run)

    assert outcome.fate is Fate.DONE
    assert await all_rows(world) == before


async def test_an_end_that_was_refused_harms_no_neighbour_in_its_batch(world: World) -> None:
    worker, run = await a_consumer(world)
    neighbours = await worker.owning(*map(str, range(10)))

    refused, *others = await asyncio.gather(
        end(worker, run, state_version=3),
        *(worker.commit(other, a_record(other, 1), move=SUCCEEDED) for other in neighbours),
    )

    assert refused.fate is Fate.BUSY
    assert {other.fate for other in others} == {Fate.DONE}


async def test_a_success_forgets_the_failures_before_it(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    await world.sql("UPDATE onward_handler SET failures = 2")
    run = await prepared(worker, "m1")

    await complete(worker, run)

    assert (await kept(world)).failures == 0
