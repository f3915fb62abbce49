"""Declarations of pipelines: what code says last is what is there, and nothing pending is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.model.pipelines import HandlerSpec, NewInput, PipelineSpec, TopicSpec
from onward.store.pipelines.declaring import declare as declare_pipeline
from onward.store.pipelines.launching import launch
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    POLL,
    ROWS,
    TOPIC,
    Delivery,
    a_pipeline,
    complete,
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

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def rows(world: World, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await world.sql(statement)]


async def test_a_declaration_makes_topics_handlers_and_subscriptions(world: World) -> None:
    store = await world.store()
    producer = HandlerSpec(POLL, "producer", (), (TOPIC,))
    topics = (TopicSpec(TOPIC, 100, 5_000),)
    spec = PipelineSpec("mail", False, "slow", topics, (producer, consumer(ADD)))

    await declare_pipeline(store, spec)

    assert await rows(world, "SELECT name, parallel, queue, paused FROM onward_pipeline") == [
        ("mail", 0, "slow", 0)
    ]
    assert await rows(
        world, "SELECT name, pipeline, max_pending, max_age FROM onward_topic ORDER BY name"
    ) == [(TOPIC, "mail", 100, 5_000), (ROWS, "", None, None)]
    assert await rows(
        world, "SELECT handler, key, kind, queue, lane FROM onward_handler ORDER BY handler"
    ) == [(ADD, "", "consumer", "slow", "mail"), (POLL, "", "producer", "slow", "mail")]
    assert await rows(world, "SELECT topic, handler, keyed, since FROM onward_subscription") == [
        (TOPIC, ADD, 0, 0)
    ]


async def test_the_same_declaration_again_changes_nothing(world: World) -> None:
    store = await world.store()
    await declare(store, ADD)
    await world.sql("UPDATE onward_pipeline SET paused = 1")
    before = await all_rows(world)

    world.clock.advance(1_000)
    await declare(store, ADD)

    assert await all_rows(world) == before


async def test_a_declaration_that_differs_keeps_states_pauses_and_work(world: World) -> None:
    store = await world.store()
    await declare(store, ADD)
    await publish(store, "m1")
    await world.sql("UPDATE onward_handler SET state_version = 3, failures = 1, blocked_by = 'x'")
    await world.sql("UPDATE onward_pipeline SET paused = 1")
    before = await kept(world)

    await declare(store, ADD, LOG)

    assert await kept(world) == before
    assert await rows(world, "SELECT paused FROM onward_pipeline") == [(1,)]
    assert await deliveries(world) == [Delivery("event-m1", "pending", None, 1)]


async def test_a_new_consumer_begins_with_what_is_published_from_now_on(world: World) -> None:
    store = await world.store()
    await declare(store, ADD)
    await publish(store, "m1")

    await declare(store, ADD, LOG)
    await publish(store, "m2")

    assert [each.event for each in await deliveries(world, LOG)] == ["event-m2"]
    assert await rows(world, f"SELECT since FROM onward_subscription WHERE handler = '{LOG}'") == [
        (1,)
    ]


async def test_a_new_consumer_may_begin_with_the_earliest_event(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    mail = NewInput("input-1", "mail", "gmail", "email", "1", "Mail 1")
    await publish(worker.store, "m1", "m2", inputs=[mail])
    await complete(worker, await prepared(worker, "m1", "m2"))

    late = consumer(LOG, TOPIC, start="earliest")
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD), late))

    assert [each.event for each in await deliveries(world, LOG)] == ["event-m1", "event-m2"]
    assert await rows(world, "SELECT open, events FROM onward_input") == [(2, 2)]
    run = await prepared(worker, "m1", handler=LOG)
    assert run.handler == LOG


async def test_a_late_consumer_is_not_given_what_was_skipped_by_its_input(world: World) -> None:
    store = await world.store()
    await declare(store, ADD)
    mail = NewInput("input-1", "mail", "gmail", "email", "1", "Mail 1")
    await publish(store, "m1", inputs=[mail])
    await publish(store, "m2")
    await world.sql("UPDATE onward_input SET skipped_at = 1")

    late = consumer(LOG, TOPIC, start="earliest")
    await declare_pipeline(store, a_pipeline(consumer(ADD), late))

    assert [(each.event, each.state) for each in await deliveries(world, LOG)] == [
        ("event-m1", "skipped"), ("event-m2", "pending"),
    ]  # fmt: skip


async def test_a_removed_consumer_keeps_what_is_pending_and_gets_nothing_new(world: World) -> None:
    store = await world.store()
    await declare(store, ADD, LOG)
    await publish(store, "m1")

    await declare(store, ADD)
    await publish(store, "m2")

    assert await deliveries(world, LOG) == [Delivery("event-m1", "pending", None, 1)]
    assert await rows(world, f"SELECT removed FROM onward_handler WHERE handler = '{LOG}'") == [
        (1,)
    ]


async def test_a_run_of_a_removed_consumer_that_has_not_begun_does_not_keep_its_lane(
    world: World,
) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1")
    await launch(worker.store, [LOG], ["default"], 1)

    await declare(worker.store, ADD)

    state = f"SELECT state, reason FROM onward_run WHERE handler = '{LOG}'"
    assert await rows(world, state) == [("cancelled", "replaced")]
    assert len(await launched(worker)) == 1


async def test_a_consumer_that_comes_back_goes_on_with_what_is_pending(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1", "m2")
    await complete(worker, await prepared(worker, "m1", handler=LOG))
    await declare(worker.store, ADD)

    await declare(worker.store, LOG)

    assert await rows(
        world, f"SELECT consumed FROM onward_subscription WHERE handler = '{LOG}'"
    ) == [(1,)]
    assert (await prepared(worker, "m2", handler=LOG)).handler == LOG


async def test_a_topic_that_a_consumer_drops_is_no_work_for_it(world: World) -> None:
    worker = await world.worker()
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD, TOPIC, ROWS)))
    await publish(worker.store, "r1", topic=ROWS)

    await declare_pipeline(worker.store, a_pipeline(consumer(ADD, TOPIC)))

    assert await launched(worker) == []
    assert await deliveries(world) == [Delivery("event-r1", "pending", None, 1)]


async def test_a_serial_pipeline_that_becomes_parallel_keeps_its_events(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    for key in ("a", "b"):
        await publish(worker.store, f"m-{key}", key=key)

    await declare(worker.store, ADD, parallel=True)

    runs = {run.handler_key: run for run in await launched(worker)}
    assert sorted(runs) == ["a", "b"]
    assert (await prepare(worker, runs["a"], "m-a")).fate == "done"


async def test_a_parallel_pipeline_that_becomes_serial_keeps_its_events(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, parallel=True)
    for key in ("a", "b", "c"):
        await publish(worker.store, f"m-{key}", key=key)
    [held, *_] = await launched(worker, limit=1)
    await prepare(worker, held, f"m-{held.handler_key}")

    await declare(worker.store, ADD)
    await worker.store.stop(held.uid, state="cancelled", reason="forced")

    done = []
    while runs := await launched(worker):
        [run] = runs
        key = run.handler_key
        messages = [key] if key else sorted({"a", "b", "c"} - {held.handler_key})
        await prepare(worker, run, *(f"m-{each}" for each in messages))
        await complete(worker, run)
        done += messages
    assert sorted(done) == ["a", "b", "c"]


async def test_two_pipelines_share_a_topic(world: World) -> None:
    store = await world.store()
    await declare(store, ADD)
    other = PipelineSpec("audit", False, "default", (), (consumer("audit.Keep"),))
    await declare_pipeline(store, other)

    await publish(store, "m1")

    assert len(await deliveries(world, "audit.Keep")) == 1
    assert await rows(world, f"SELECT pipeline FROM onward_topic WHERE name = '{TOPIC}'") == [
        ("mail",)
    ]
