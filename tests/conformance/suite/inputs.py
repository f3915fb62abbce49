"""Inputs: counted, listed, traced to their effects, skipped in each of four cases, and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward.core.instant import DAY, HOUR, MINUTE
from onward.core.retention import DEFAULT_RETENTION, Retention
from onward.engine.pipeline_engine import STALE_AFTER, InputFilter
from onward.engine.pipelines.local import LocalPipelines
from onward.engine.pipelines.views import InputCounts, SkippedInput
from onward.errors import BadInput, NotFound, PipelineBlocked
from onward.model.pipelines import NewEvent, NewInput
from onward.model.runs import Move, RunOwner
from onward.store import Attachments
from onward.store.pipelines.declaring import declare as declare_pipeline
from onward.store.pipelines.publishing import publish
from onward.store.runs.retention import prune
from tests.conformance.suite.families import each
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    ROWS,
    TOPIC,
    a_pipeline,
    an_effect_record,
    an_event,
    complete,
    consumer,
    declare,
    deliveries,
    launched,
    peeked,
    prepared,
)
from tests.conformance.suite.samples import an_effect
from tests.conformance.suite.topics import tally

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

PAST_ITS_EFFECT = ("in_flight", "needs_reconcile", "indeterminate", "applied")


def an_input(store: Store, external: str, **given: Any) -> NewInput:
    """Return an input with an id of the present time."""
    uid = store.new_uid()
    new = NewInput(uid, "mail", "gmail", "email", external, f"Mail from {external}")
    return new._replace(**given)


async def receive(store: Store, *externals: str) -> list[str]:
    """Register inputs and publish an event for each, with its id; return the ids of the inputs."""
    inputs = [an_input(store, external) for external in externals]
    events = [
        NewEvent(store.new_uid(), TOPIC, each.external, b"json:1", input=each.uid)
        for each in inputs
    ]
    await store.write(lambda tx: publish(tx, events, inputs, None))
    return [each.uid for each in inputs]


async def send(worker: Worker, run: ClaimedRun, state: str) -> None:
    """Let the effect of a run come to a state."""
    effects = (an_effect(run, 1, "in_flight"),)
    await worker.commit(run, an_effect_record(run, None), attached=Attachments(effects=effects))
    if state != "in_flight":
        effects = (an_effect(run, 2, state),)
        records = [an_effect_record(run)] if state == "applied" else []
        await worker.commit(run, *records, attached=Attachments(effects=effects))


async def states(world: World, handler: str = ADD) -> list[str]:
    return [each.state for each in await deliveries(world, handler)]


async def counts(store: Store) -> tuple[int, int, int, int]:
    """Return how many inputs are pending, done, skipped and stale."""
    [found] = await LocalPipelines(store).input_counts("mail", STALE_AFTER)
    return found.pending, found.done, found.skipped, found.stale


# --- lists and counts -----------------------------------------------------------------------------


async def test_an_input_is_done_when_every_consumer_has_handled_its_events(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    [uid] = await receive(worker.store, "m1")
    assert await counts(worker.store) == (1, 0, 0, 0)

    for handler in (ADD, LOG):
        assert await counts(worker.store) == (1, 0, 0, 0)
        await complete(worker, await prepared(worker, "m1", handler=handler))

    assert await counts(worker.store) == (0, 1, 0, 0)
    assert (await LocalPipelines(worker.store).input(uid)).input.state == "done"


async def test_an_input_is_pending_until_what_followed_from_it_is_handled(world: World) -> None:
    worker = await world.worker()
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD), consumer(LOG, ROWS)))
    await receive(worker.store, "m1")
    run = await prepared(worker, "m1")

    await complete(worker, run, an_event("row", ROWS))

    assert await counts(worker.store) == (1, 0, 0, 0)
    [run] = await launched(worker, LOG)
    assert run.handler == LOG


async def test_counts_are_by_pipeline_source_and_type(world: World) -> None:
    store = await world.store()
    await declare(store)
    inputs = [
        an_input(store, "1"),
        an_input(store, "2"),
        an_input(store, "3", type="draft"),
        an_input(store, "4", pipeline="other"),
    ]
    await store.write(lambda tx: publish(tx, (), inputs, None))

    found = await LocalPipelines(store).input_counts(None, STALE_AFTER)

    assert found == [
        InputCounts("mail", "gmail", "draft", 1, 0, 0, 0),
        InputCounts("mail", "gmail", "email", 2, 0, 0, 0),
        InputCounts("other", "gmail", "email", 1, 0, 0, 0),
    ]


async def test_an_input_that_is_pending_for_seven_days_is_stale(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    first, _ = await receive(worker.store, "m1", "m2")
    await complete(worker, await prepared(worker, "m2"))
    world.clock.advance(7 * DAY - MINUTE)
    assert await counts(worker.store) == (1, 1, 0, 0)

    world.clock.advance(2 * MINUTE)

    assert await counts(worker.store) == (1, 1, 0, 1)
    pipelines = LocalPipelines(worker.store)
    [stale] = await pipelines.inputs(InputFilter(state="stale"))
    assert (stale.id, stale.is_stale, stale.state) == (first, True, "pending")
    assert await pipelines.inputs(InputFilter(state="stale", stale_after=8 * DAY)) == []


async def test_inputs_are_listed_newest_first_and_by_what_they_are(world: World) -> None:
    worker = await world.worker()
    store = worker.store
    await declare(store)
    first, second, third = await receive(store, "ada", "bob", "cyd")
    await complete(worker, await prepared(worker, "ada"))
    pipelines = LocalPipelines(store)
    await pipelines.skip_input(third, "spam", "ana")

    async def listed(**given: Any) -> list[str]:
        return [each.id for each in await pipelines.inputs(InputFilter(**given))]

    assert await listed() == [third, second, first]
    assert await listed(limit=1) == [third]
    assert await listed(pipeline="mail", state="pending") == [second]
    assert await listed(state="done") == [first]
    assert await listed(pipeline="mail", state="skipped") == [third]
    assert await listed(text="Mail from b") == [second]
    assert await listed(text="cyd", source="gmail") == [third]
    assert await listed(source="imap") == []
    assert await listed(pipeline="other") == []
    with pytest.raises(BadInput, match="state 'lost' is not a valid input state"):
        await listed(state="lost")


# --- what happened because of an input ------------------------------------------------------------


async def test_a_report_has_events_and_effects_with_title_and_arguments(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    [uid] = await receive(worker.store, "m1")
    run = await prepared(worker, "m1")
    await send(worker, run, "applied")
    await complete(worker, run, an_event("row", ROWS), seq=3)

    report = await LocalPipelines(worker.store).input(uid)

    assert [(event.id, event.topic, event.run) for event in report.events] == [
        ("m1", TOPIC, None),
        ("row", ROWS, run.id),
    ]
    assert [(each.consumer, each.state) for each in report.events[0].deliveries] == [
        (ADD, "consumed")
    ]
    [effect] = report.effects
    assert (effect.title, effect.name, effect.state) == ("Charge Ada", "charge", "applied")
    assert (report.notes, report.inputs) == ((), {effect.id: (uid,)})
    with pytest.raises(NotFound, match="input 'nothing'"):
        await LocalPipelines(worker.store).input("nothing")


async def test_the_effect_of_a_batch_names_all_its_inputs(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    first, second = await receive(worker.store, "m1", "m2")
    run = await prepared(worker, "m1", "m2")
    await send(worker, run, "applied")
    await complete(worker, run, an_event("row", ROWS), seq=3)

    for uid in (first, second):
        report = await LocalPipelines(worker.store).input(uid)
        assert set(report.inputs[report.effects[0].id]) == {first, second}
        assert [event.id for event in report.events][-1] == "row"


# --- skip -----------------------------------------------------------------------------------------


async def test_a_skip_of_an_input_skips_its_pending_events(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    first, second = await receive(worker.store, "m1", "m2")

    answer = await LocalPipelines(worker.store).skip_input(first, "spam", "ana")

    assert answer == SkippedInput(2)
    assert await states(world) == ["skipped", "pending"]
    assert await tally(world) == {first: (0, 1), second: (2, 1)}
    assert await counts(worker.store) == (1, 0, 1, 0)
    assert [event.message for event in await peeked(worker.store)] == ["m2"]


async def test_a_skip_cancels_a_run_before_its_effect_and_releases_its_other_events(
    world: World,
) -> None:
    worker = await world.worker()
    await declare(worker.store)
    first, second = await receive(worker.store, "m1", "m2")
    run = await prepared(worker, "m1", "m2")

    answer = await LocalPipelines(worker.store).skip_input(first, "spam", "ana")

    assert answer == SkippedInput(1, (run.id,))
    assert (await worker.store.run(run.uid)).state == "cancelled"
    assert await states(world) == ["skipped", "pending"]
    assert await tally(world) == {first: (0, 1), second: (1, 1)}
    [again] = await launched(worker)
    assert again.uid != run.uid


async def test_a_skip_lets_a_run_past_its_effect_complete(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    [uid] = await receive(worker.store, "m1")
    run = await prepared(worker, "m1")
    await send(worker, run, "applied")
    pipelines = LocalPipelines(worker.store)
    world.clock.advance(MINUTE)

    answer = await pipelines.skip_input(uid, "spam", "ana")

    assert answer == SkippedInput(0, (), (run.id,))
    assert await states(world) == ["reserved"]
    assert (await complete(worker, run, seq=3)).fate == "done"
    assert await states(world) == ["consumed"]
    notes = (await pipelines.input(uid)).notes
    assert "by ana: spam" in notes[0]
    assert notes[1] == f"'Charge Ada' was applied before the skip (run {run.id})"
    assert notes[2] == "1 event was consumed"


@each(PAST_ITS_EFFECT)
async def test_a_run_whose_effect_may_have_happened_is_not_cancelled_by_a_skip(
    world: World, state: str
) -> None:
    worker = await world.worker()
    await declare(worker.store)
    [uid] = await receive(worker.store, "m1")
    run = await prepared(worker, "m1")
    await send(worker, run, state)

    assert await LocalPipelines(worker.store).skip_input(uid, "spam", "ana") == SkippedInput(
        0, (), (run.id,)
    )

    assert (await worker.store.run(run.uid)).state == "running"


async def test_a_skip_leaves_consumed_events_as_they_are(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    [uid] = await receive(worker.store, "m1")
    await complete(worker, await prepared(worker, "m1"))

    answer = await LocalPipelines(worker.store).skip_input(uid, "spam", "ana")

    assert answer == SkippedInput(0, done=1)
    assert await states(world) == ["consumed"]


async def test_what_is_published_later_because_of_a_skipped_input_is_skipped(world: World) -> None:
    worker = await world.worker()
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD), consumer(LOG, ROWS)))
    [uid] = await receive(worker.store, "m1")
    run = await prepared(worker, "m1")
    await send(worker, run, "applied")
    await LocalPipelines(worker.store).skip_input(uid, "spam", "ana")

    await complete(worker, run, an_event("row", ROWS), seq=3)

    assert await states(world, LOG) == ["skipped"]
    assert await launched(worker) == []
    assert await tally(world) == {uid: (0, 2)}


async def test_an_event_that_another_input_has_caused_too_is_not_skipped(world: World) -> None:
    worker = await world.worker()
    await declare_pipeline(worker.store, a_pipeline(consumer(ADD), consumer(LOG, ROWS)))
    first, second = await receive(worker.store, "m1", "m2")
    await complete(worker, await prepared(worker, "m1", "m2"), an_event("row", ROWS))
    pipelines = LocalPipelines(worker.store)

    assert (await pipelines.skip_input(first, "spam", "ana")).skipped == 0
    assert await states(world, LOG) == ["pending"]
    assert (await pipelines.skip_input(second, "spam", "ana")).skipped == 1
    assert await states(world, LOG) == ["skipped"]


async def test_a_run_that_fails_after_the_skip_does_not_release_the_event(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    [uid] = await receive(worker.store, "m1")
    run = await prepared(worker, "m1")
    await send(worker, run, "in_flight")
    await LocalPipelines(worker.store).skip_input(uid, "spam", "ana")
    await worker.commit(run, attached=Attachments(effects=(an_effect(run, 2, "failed"),)))

    move = Move("failed", "logic", error=b"json:null")
    assert await worker.store.give_up(RunOwner(worker.name, run.uid, run.fence), move, "code-1")

    assert await states(world) == ["skipped"]
    assert await tally(world) == {uid: (0, 1)}


async def test_a_second_skip_changes_nothing(world: World) -> None:
    store = await world.store()
    await declare(store)
    [uid] = await receive(store, "m1")
    pipelines = LocalPipelines(store)
    await pipelines.skip_input(uid, "spam", "ana")

    assert await pipelines.skip_input(uid, "again", "bob") == SkippedInput(0)

    assert await counts(store) == (0, 0, 1, 0)
    assert "by ana: spam" in (await pipelines.input(uid)).notes[0]
    with pytest.raises(NotFound, match="input 'nothing'"):
        await pipelines.skip_input("nothing", "spam", "ana")


async def test_an_event_of_a_skipped_input_is_not_replayed(world: World) -> None:
    store = await world.store()
    await declare(store)
    [uid] = await receive(store, "m1")
    pipelines = LocalPipelines(store)
    await pipelines.skip_input(uid, "spam", "ana")

    with pytest.raises(PipelineBlocked, match="an operator has skipped"):
        await pipelines.replay(TOPIC, ["m1"], None, "ana")


async def test_a_replayed_event_opens_its_input_again(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await receive(worker.store, "m1")
    await complete(worker, await prepared(worker, "m1"))
    await LocalPipelines(worker.store).replay(TOPIC, ["m1"], None, "ana")
    assert await counts(worker.store) == (1, 0, 0, 0)

    await complete(worker, await prepared(worker, "m1"))

    assert await counts(worker.store) == (0, 1, 0, 0)


# --- retention ------------------------------------------------------------------------------------


async def pruned(store: Store, keep: Retention, *, dry_run: bool = False) -> dict[str, int]:
    """Delete, or count, all that is old; return the rows by table."""
    rows: dict[str, int] = {}
    position = None
    while True:
        found, position = await prune(store, keep, position, dry_run=dry_run)
        for table, count in found.items():
            rows[table] = rows.get(table, 0) + count
        if position is None:
            return {table: count for table, count in rows.items() if count}


async def test_settled_events_and_inputs_are_deleted_and_pending_ones_never(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD, LOG)
    first, second, third = await receive(worker.store, "m1", "m2", "m3")
    for handler in (ADD, LOG):
        await complete(worker, await prepared(worker, "m1", handler=handler))
    await complete(worker, await prepared(worker, "m2"))
    await LocalPipelines(worker.store).skip_input(third, "spam", "ana")
    assert await pruned(worker.store, DEFAULT_RETENTION) == {}
    world.clock.advance(31 * DAY)

    would = await pruned(worker.store, DEFAULT_RETENTION, dry_run=True)
    assert would["onward_event"] == 2
    assert would["onward_delivery"] == 4
    gone = await pruned(worker.store, DEFAULT_RETENTION)

    assert {table: gone[table] for table in ("onward_event", "onward_delivery")} == {
        "onward_event": 2, "onward_delivery": 4,
    }  # fmt: skip
    assert gone["onward_input"] == 2
    assert [each.id for each in await LocalPipelines(worker.store).inputs(InputFilter())] == [
        second
    ]
    assert await counts(worker.store) == (1, 0, 0, 1)
    assert [event.message for event in await peeked(worker.store, LOG)] == ["m2"]
    assert first not in {row[0] for row in await world.sql("SELECT input FROM onward_cause")}


async def test_an_event_is_kept_from_when_it_was_settled(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await receive(worker.store, "m1")
    world.clock.advance(40 * DAY)
    await complete(worker, await prepared(worker, "m1"))

    assert "onward_event" not in await pruned(worker.store, DEFAULT_RETENTION)
    world.clock.advance(30 * DAY + HOUR)
    assert (await pruned(worker.store, DEFAULT_RETENTION))["onward_event"] == 1


async def test_events_are_kept_if_runs_that_succeeded_are(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await receive(worker.store, "m1")
    await complete(worker, await prepared(worker, "m1"))
    world.clock.advance(400 * DAY)

    assert await pruned(worker.store, Retention(None, None, None, None)) == {}
