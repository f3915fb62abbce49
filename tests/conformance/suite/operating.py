"""Operators look at pipelines and topics, pause and trigger them, and replay and skip events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.instant import HOUR, MINUTE
from onward.engine.maintenance import Maintenance
from onward.engine.pipelines.findings import pipeline_findings
from onward.engine.pipelines.local import LocalPipelines
from onward.engine.why import find_blockers, find_pipeline_blockers
from onward.engine.within import CallerTransaction
from onward.errors import BadInput, NotFound, PipelineBlocked, TopicFull
from onward.model.pipelines import HandlerSpec, NewEvent, TopicSpec
from onward.model.runs import Move, RunOwner
from onward.store.pipelines.declaring import declare as declare_pipeline
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    POLL,
    ROWS,
    TOPIC,
    Delivery,
    a_pipeline,
    an_event,
    complete,
    consumer,
    declare,
    deliveries,
    kept,
    launched,
    peeked,
    prepared,
    publish,
)

if TYPE_CHECKING:
    from onward.engine.finding import Finding
    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

NOBODY = {"pending": 0, "reserved": 0, "consumed": 0, "skipped": 0}


async def fail(worker: Worker, run: ClaimedRun) -> None:
    """End a run of a handler by a failure of its code."""
    move = Move("failed", "logic", error=b"json:null")
    assert await worker.store.give_up(RunOwner(worker.name, run.uid, run.fence), move, "code-1")


async def counted(store: Store, topic: str = TOPIC) -> dict[str, dict[str, int]]:
    return await LocalPipelines(store).counts(topic)


# --- publishing from outside ----------------------------------------------------------------------


async def test_publishing_says_how_many_events_are_new(world: World) -> None:
    store = await world.store()
    await declare(store)
    pipelines = LocalPipelines(store)

    assert await pipelines.publish([an_event("1"), an_event("2")]) == 2
    assert await pipelines.publish([an_event("2"), an_event("3")]) == 1

    assert [event.message for event in await peeked(store)] == ["1", "2", "3"]


async def test_a_topic_that_is_full_takes_no_more_events(world: World) -> None:
    store = await world.store()
    spec = a_pipeline(consumer(ADD))._replace(topics=(TopicSpec(TOPIC, max_pending=2),))
    await declare_pipeline(store, spec)
    pipelines = LocalPipelines(store)
    await pipelines.publish([an_event("1"), an_event("2")])

    with pytest.raises(TopicFull, match="2 pending events"):
        await pipelines.publish([an_event("3")])

    assert len(await peeked(store)) == 2


async def test_a_topic_whose_oldest_event_is_too_old_takes_no_more_events(world: World) -> None:
    store = await world.store()
    spec = a_pipeline(consumer(ADD))._replace(topics=(TopicSpec(TOPIC, max_age=HOUR),))
    await declare_pipeline(store, spec)
    pipelines = LocalPipelines(store)
    await pipelines.publish([an_event("1")])
    world.clock.advance(HOUR + MINUTE)

    with pytest.raises(TopicFull, match="the oldest has been pending for 1h1m"):
        await pipelines.publish([an_event("2")])


async def test_an_event_of_a_callers_transaction_is_published_after_its_commit(
    world: World,
) -> None:
    store = await world.store()
    await declare(store)
    await store.locate()
    async with world.caller(commit=True) as connection:
        caller = CallerTransaction(store, store.within(connection))
        await caller.publish([an_event("1"), an_event("2"), an_event("1")])
        await caller.publish([an_event("3")])

    assert await peeked(store) == []
    due = await Maintenance(store, world.clock).tick()

    assert due.outbox
    assert [event.message for event in await peeked(store)] == ["1", "2", "3"]
    assert not (await Maintenance(store, world.clock).tick()).outbox


async def test_an_event_of_a_callers_transaction_is_gone_with_its_rollback(world: World) -> None:
    store = await world.store()
    await declare(store)
    await store.locate()
    async with world.caller(commit=False) as connection:
        await CallerTransaction(store, store.within(connection)).publish([an_event("1")])

    await Maintenance(store, world.clock).tick()

    assert await peeked(store) == []


async def test_a_callers_transaction_stays_usable_when_the_topic_is_unknown(world: World) -> None:
    store = await world.store()
    await declare(store)
    await store.locate()
    async with world.caller(commit=True) as connection:
        caller = CallerTransaction(store, store.within(connection))
        with pytest.raises(NotFound, match="'nowhere'"):
            await caller.publish([an_event("1"), an_event("1", "nowhere")])
        with pytest.raises(BadInput, match="cannot be registered in your own transaction"):
            await caller.publish([an_event("1")._replace(input="m1")])
        await caller.publish([an_event("2")])

    await Maintenance(store, world.clock).tick()

    assert [event.message for event in await peeked(store)] == ["2"]


# --- topics ---------------------------------------------------------------------------------------


async def test_counts_have_all_consumers_and_zeros(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    assert await counted(worker.store) == {ADD: NOBODY, LOG: NOBODY}
    await publish(worker.store, "1", "2", "3")

    run = await prepared(worker, "1")
    assert await counted(worker.store) == {
        ADD: NOBODY | {"pending": 2, "reserved": 1},
        LOG: NOBODY | {"pending": 3},
    }
    await complete(worker, run)
    await LocalPipelines(worker.store).skip(TOPIC, ["2"], ADD, "spam", "ana")

    assert (await counted(worker.store))[ADD] == {
        "pending": 1, "reserved": 0, "consumed": 1, "skipped": 1,
    }  # fmt: skip
    with pytest.raises(NotFound, match="'nowhere'"):
        await counted(worker.store, "nowhere")


async def test_topics_are_listed_with_their_limits_and_counts(world: World) -> None:
    store = await world.store()
    spec = a_pipeline(consumer(ADD))
    limited = TopicSpec(TOPIC, max_pending=5, max_age=HOUR)
    await declare_pipeline(store, spec._replace(topics=(limited, TopicSpec(ROWS))))
    await publish(store, "1")

    mail, rows = await LocalPipelines(store).topics()

    assert (mail.name, mail.pipeline, mail.published, mail.max_pending) == (TOPIC, "mail", 1, 5)
    assert mail.max_age is not None
    assert mail.max_age.total_seconds() == 3600
    assert mail.counts == {ADD: NOBODY | {"pending": 1}}
    assert (rows.name, rows.published, rows.counts) == (ROWS, 0, {})


async def test_peek_shows_the_oldest_events_that_are_pending(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "1", "2", "3")
    run = await prepared(worker, "1")
    await complete(worker, run)
    pipelines = LocalPipelines(worker.store)

    for_add = await pipelines.peek(TOPIC, limit=2, ids=None, consumer=ADD)
    for_any = await pipelines.peek(TOPIC, limit=2, ids=None, consumer=None)

    assert [event.id for event in for_add] == ["2", "3"]
    assert [event.id for event in for_any] == ["1", "2"]
    assert [(each.consumer, each.state, each.run) for each in for_any[0].deliveries] == [
        (ADD, "consumed", run.id),
        (LOG, "pending", None),
    ]


async def test_peek_finds_events_by_their_ids_in_any_state(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "1", "2")
    await complete(worker, await prepared(worker, "1"))
    pipelines = LocalPipelines(worker.store)

    found = await pipelines.peek(TOPIC, limit=1, ids=["2", "1"], consumer=None)

    assert [event.id for event in found] == ["1", "2"]
    with pytest.raises(NotFound, match="event 'unknown'"):
        await pipelines.peek(TOPIC, limit=1, ids=["1", "unknown"], consumer=None)
    with pytest.raises(NotFound, match=r"consumer 'mail\.Nobody'"):
        await pipelines.peek(TOPIC, limit=1, ids=None, consumer="mail.Nobody")


async def test_peek_takes_between_one_and_a_thousand(world: World) -> None:
    store = await world.store()
    await declare(store)
    for limit in (0, 1001):
        with pytest.raises(BadInput, match="is not between 1 and 1,000"):
            await LocalPipelines(store).peek(TOPIC, limit=limit, ids=None, consumer=None)


async def test_a_replayed_event_is_pending_again_under_another_attempt(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "1", "2")
    await complete(worker, await prepared(worker, "1"))
    pipelines = LocalPipelines(worker.store)
    await pipelines.skip(TOPIC, ["2"], ADD, "spam", "ana")
    before = (await kept(world)).published

    assert await pipelines.replay(TOPIC, ["1", "2"], None, "ana") == 2

    assert await deliveries(world) == [
        Delivery("event-1", "pending", None, 2),
        Delivery("event-2", "pending", None, 2),
    ]
    assert [event.replays for event in await peeked(worker.store)] == [1, 1]
    assert (await counted(worker.store))[ADD] == NOBODY | {"pending": 2}
    assert (await kept(world)).published > before
    assert await pipelines.replay(TOPIC, ["1"], ADD, "ana") == 0  # it is pending


async def test_the_run_of_a_replayed_event_has_another_effect_key(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "1")
    first = await prepared(worker, "1")
    await complete(worker, first)
    await LocalPipelines(worker.store).replay(TOPIC, ["1"], None, "ana")

    second = await prepared(worker, "1")

    origins = [(await worker.store.run(run.uid)).origin for run in (first, second)]
    assert origins[0] != origins[1]
    await complete(worker, second)


async def test_a_reserved_event_cannot_be_skipped(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "1", "2")
    run = await prepared(worker, "1")

    with pytest.raises(PipelineBlocked, match=f"is reserved by run {run.id}"):
        await LocalPipelines(worker.store).skip(TOPIC, ["2", "1"], None, "spam", "ana")

    assert [each.state for each in await deliveries(world)] == ["reserved", "pending"]
    await complete(worker, run)


async def test_a_skipped_event_is_not_handled(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "1")

    assert await LocalPipelines(worker.store).skip(TOPIC, ["1"], None, "spam", "ana") == 1

    assert await launched(worker) == []
    [event] = await LocalPipelines(worker.store).peek(TOPIC, limit=1, ids=["1"], consumer=None)
    assert event.deliveries[0].reason == "operator: spam (by ana)"


async def test_events_of_a_removed_consumer_are_listed_and_can_be_skipped(world: World) -> None:
    store = await world.store()
    await declare(store, ADD, LOG)
    await publish(store, "1", "2")
    await declare(store, LOG)
    pipelines = LocalPipelines(store)

    assert (await counted(store))[ADD] == NOBODY | {"pending": 2}
    assert "removed_consumer" in {finding.kind for finding in await _findings(store)}
    assert await pipelines.skip(TOPIC, ["1", "2"], ADD, "gone", "ana") == 2

    assert ADD not in await counted(store)
    assert "removed_consumer" not in {finding.kind for finding in await _findings(store)}


# --- pipelines ------------------------------------------------------------------------------------


async def test_a_pipeline_shows_its_graph_and_what_its_handlers_do(world: World) -> None:
    worker = await world.worker()
    producer = HandlerSpec(POLL, "producer", (), (TOPIC,))
    await declare_pipeline(worker.store, a_pipeline(producer, consumer(ADD), consumer(LOG, ROWS)))
    pipelines = LocalPipelines(worker.store)
    [idle] = await pipelines.all()
    await publish(worker.store, "1", "2")
    run = await prepared(worker, "1")

    info = await pipelines.get("mail")

    assert (info.name, info.is_parallel, info.state, info.topics) == (
        "mail", False, "active", (TOPIC, ROWS),
    )  # fmt: skip
    assert [(each.name, each.subscribes, each.publishes) for each in info.handlers] == [
        (POLL, (), (TOPIC,)),
        (ADD, (TOPIC,), (ROWS,)),
        (LOG, (ROWS,), (ROWS,)),
    ]
    assert [each.state for each in idle.handlers] == ["idle", "idle", "idle"]
    assert [(each.state, each.run, each.pending) for each in info.handlers] == [
        ("idle", None, 0),
        ("running", run.id, 1),
        ("idle", None, 0),
    ]
    with pytest.raises(NotFound, match="pipeline 'nothing'"):
        await pipelines.get("nothing")
    await complete(worker, run)
    assert (await pipelines.get("mail")).handlers[1].state == "due"


async def test_a_parallel_pipeline_shows_its_busiest_keys(world: World) -> None:
    store = await world.store()
    await declare(store, parallel=True)
    await publish(store, "1", key="a")
    await publish(store, "2", "3", key="b")

    info = await LocalPipelines(store).get("mail")

    assert [(each.key, each.state, each.pending) for each in info.handlers] == [
        ("", "due", 3),
        ("a", "due", 1),
        ("b", "due", 2),
    ]


async def test_a_paused_pipeline_starts_no_runs(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    pipelines = LocalPipelines(worker.store)
    await publish(worker.store, "1")
    for paused in ("mail", None):
        await pipelines.pause(paused)

        assert await launched(worker) == []
        [info] = await pipelines.all()
        assert (info.state, info.handlers[0].state) == ("paused", "paused")
        assert len(await find_pipeline_blockers(worker.store, "mail")) == 1
        assert await pipelines.resume(paused) == []
    assert len(await launched(worker)) == 1
    with pytest.raises(NotFound, match="pipeline 'nothing'"):
        await pipelines.pause("nothing")


async def test_a_trigger_gives_producers_work(world: World) -> None:
    worker = await world.worker()
    other = "mail.sweep"
    specs = [HandlerSpec(name, "producer", (), (TOPIC,)) for name in (POLL, other)]
    await declare_pipeline(worker.store, a_pipeline(*specs, consumer(ADD)))
    pipelines = LocalPipelines(worker.store)

    assert await pipelines.trigger("mail", None) == [POLL, other]
    assert await pipelines.trigger("mail", "poll") == [POLL]
    assert [run.handler for run in await launched(worker)] == [POLL]
    with pytest.raises(NotFound, match="producer 'AddRow'"):
        await pipelines.trigger("mail", "AddRow")
    with pytest.raises(NotFound, match="pipeline 'nothing'"):
        await pipelines.trigger("nothing", None)


async def test_a_paused_or_blocked_pipeline_refuses_a_trigger(world: World) -> None:
    worker = await world.worker()
    producer = HandlerSpec(POLL, "producer", (), (TOPIC,))
    await declare_pipeline(worker.store, a_pipeline(producer, consumer(ADD)))
    pipelines = LocalPipelines(worker.store)
    await pipelines.pause("mail")
    with pytest.raises(PipelineBlocked, match="is paused"):
        await pipelines.trigger("mail", None)
    await pipelines.resume("mail")
    await publish(worker.store, "1")
    run = await prepared(worker, "1")
    await fail(worker, run)

    with pytest.raises(PipelineBlocked, match=f"is blocked by run {run.id}"):
        await pipelines.trigger("mail", None)


async def test_a_blocked_pipeline_says_why_and_resumes(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "1")
    run = await prepared(worker, "1")
    await fail(worker, run)
    pipelines = LocalPipelines(worker.store)

    info = await pipelines.get("mail")
    assert (info.state, info.handlers[0].state, info.handlers[0].run) == (
        "blocked", "blocked", run.id,
    )  # fmt: skip
    [of_run] = await find_blockers(worker.store, await worker.store.run(run.uid))
    assert (of_run.kind, of_run.next) == ("blocked", "onward pipelines resume mail")
    [of_pipeline] = await find_pipeline_blockers(worker.store, "mail")
    assert f"run {run.id} failed" in of_pipeline.text
    assert "blocked" in {finding.kind for finding in await _findings(worker.store)}
    assert await launched(worker) == []

    assert await pipelines.resume("mail") == [run.id]

    assert (await pipelines.get("mail")).state == "active"
    [again] = await launched(worker)
    assert (again.id, again.uid != run.uid) == (run.id, True)


async def _findings(store: Store) -> list[Finding]:
    return [each async for each in pipeline_findings(store)]


async def test_a_topic_without_a_consumer_is_a_finding(world: World) -> None:
    store = await world.store()
    await declare(store)

    [finding] = [each for each in await _findings(store) if each.kind == "topic"]

    assert ROWS in finding.text


async def test_events_are_published_ten_thousand_in_a_call(world: World) -> None:
    store = await world.store()
    await declare(store, ADD, LOG)
    events = [NewEvent(store.new_uid(), TOPIC, f"{n}", b"json:1") for n in range(10_000)]

    assert await LocalPipelines(store).publish(events) == 10_000

    assert (await counted(store))[LOG]["pending"] == 10_000
