"""Statements about the engine of Keep.AI that no other test asserts: see the lineage page."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from onward.errors import BadInput, PipelineBlocked
from onward.pipelines import (
    Consumer,
    NextContext,
    Nothing,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
    Topic,
)
from onward.store.sqlite.connection import connect, migrate
from onward.testing.outside import Trouble
from onward.testing.pipelines import PublishedEvent, prepare, produce
from tests.kit.virtual_time import in_virtual_time
from tests.kit.watching import until, working
from tests.sdk.pipelines.post import counts, numbers, post, runs_of, until_counts, until_run

if TYPE_CHECKING:
    from onward import App
    from onward.testing.clock import VirtualClock


def a_reader(**options: Any) -> tuple[Pipeline, Topic[str], type[Any]]:
    """Return a pipeline whose consumer prepares as its class attribute `choose` says."""
    pipeline = Pipeline(f"statements-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)

    @pipeline.consumer(subscribes=[words], **options)
    class Read(Consumer[int, str]):
        choose: Any = None
        seen: list[Any] = []  # noqa: RUF012 - each call makes a class of its own

        async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[str]:
            prepared: Prepared[str] = await type(self).choose(ctx)
            return prepared

        async def mutate(self, ctx: Any, prepared: Prepared[str]) -> None:
            self.seen.append("mutate")

        async def next(
            self, ctx: NextContext, prepared: Prepared[str], outcome: Outcome
        ) -> int | None:
            self.seen.append((prepared.data, outcome))
            return None

    return pipeline, words, Read


# --- prepare --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "wakes"), [("1s", 30.0), ("30d", 86_400.0)])
async def test_a_clamped_wake_time_is_logged_and_on_record(
    memory: App, asked: str, wakes: float, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline, words, reader = a_reader()

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        return Prepared(wake_at=asked, data="")

    reader.choose = choose
    with caplog.at_level(logging.INFO, "onward"):
        async with working(memory, pipelines=[pipeline]):
            await memory.publish(words, "a", id="1")
            run = await until_run(memory, f"{pipeline.name}.Read", "succeeded")
            [record, _] = await (await memory.get(run.id)).history()
    [told] = [vars(each) for each in caplog.records if "wake_seconds" in vars(each)]
    wanted = {"1s": 1.0, "30d": 30 * 86_400.0}[asked]
    assert (told["handler"], told["asked_seconds"]) == (f"{pipeline.name}.Read", wanted)
    assert told["wake_seconds"] == wakes
    assert record.value["asked"] == wanted * 1_000_000
    assert record.value["wakes"] == wakes * 1_000_000


async def test_peek_uses_its_topic_and_its_limit(memory: App) -> None:
    _, words, reader = a_reader()

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        one = await ctx.peek(words, limit=1)
        both = await ctx.get(words, ["1", "2", "9"])
        return Prepared(data=f"{[each.id for each in one]} {[each.id for each in both]}")

    reader.choose = choose
    assert (await prepare(reader, {words: ["a", "b", "c"]})).data == "['1'] ['1', '2']"


async def test_a_consumer_reads_only_topics_that_it_subscribes_to(memory: App) -> None:
    _, words, reader = a_reader()
    other: Topic[str] = Topic("somewhere else", str)

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        return Prepared(reserve=await ctx.peek(other))

    reader.choose = choose
    with pytest.raises(BadInput, match="does not subscribe to it"):
        await prepare(reader, {words: ["a"]})


async def test_a_preparation_reserves_at_most_a_thousand_events_of_its_own(memory: App) -> None:
    _, words, reader = a_reader()

    async def twice(ctx: PrepareContext) -> Prepared[str]:
        return Prepared(reserve=[*await ctx.peek(words), *await ctx.peek(words)])

    async def too_many(ctx: PrepareContext) -> Prepared[str]:
        events = await ctx.peek(words, limit=1000)
        return Prepared(reserve=[*events, *await ctx.get(words, ["1001"])])

    reader.choose = twice
    with pytest.raises(BadInput, match="reserved an event twice"):
        await prepare(reader, {words: ["a"]})
    reader.choose = too_many
    with pytest.raises(BadInput, match="one run may reserve at most 1,000"):
        await prepare(reader, {words: ["a"] * 1001})


def test_a_phase_that_takes_too_long_is_tried_again() -> None:
    pipeline, words, reader = a_reader(timeout="1m")
    slow = ["1h"]

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        if slow:
            slow.pop()
            await asyncio.sleep(3600)
        return Prepared(reserve=await ctx.peek(words), data="")

    reader.choose = choose

    async def scene(app: App, clock: VirtualClock) -> list[tuple[str, str | None]]:
        async with app.worker(pipelines=[pipeline]):
            await app.publish(words, "a", id="1")
            await until_counts(app, words, f"{pipeline.name}.Read", consumed=1)
        return [(each.state, each.reason) for each in await runs_of(app, f"{pipeline.name}.Read")]

    first, second = in_virtual_time(scene)
    assert (first, second[0]) == (("failed", "transient"), "succeeded")


async def test_next_runs_without_events_and_mutate_does_not(memory: App) -> None:
    pipeline, words, reader = a_reader()

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        return Prepared(data="nothing to do")

    reader.choose = choose
    async with working(memory, pipelines=[pipeline]):
        await memory.publish(words, "a", id="1")
        await until_run(memory, f"{pipeline.name}.Read", "succeeded")
        held = await counts(memory, words, f"{pipeline.name}.Read")
    assert reader.seen == [("nothing to do", Nothing())]
    assert (held["pending"], held["consumed"]) == (1, 0)


# --- commits --------------------------------------------------------------------------------------


async def test_what_a_failed_attempt_published_is_not_there(memory: App) -> None:
    late = Pipeline(f"late-{next(numbers)}")
    words = late.topic(f"{late.name}.words", str)
    fails = [True]

    @late.producer(every="1h", publishes=[words])
    async def tell(ctx: ProducerContext, state: int | None) -> int:
        source = ctx.input(source="ear", type="word", id="1", title="Word")
        ctx.publish(words, f"after {state}", id="1", input=source)
        if fails and fails.pop():
            raise ValueError("a bug")
        return 1

    async with working(memory, pipelines=[late]):
        await memory.pipelines.trigger(late.name)
        await until_run(memory, f"{late.name}.tell", "failed", kind="producer")
        [topic] = await memory.topics.list()
        assert (topic.published, await memory.inputs.list()) == (0, [])
        await memory.pipelines.resume(late.name)
        await until_run(memory, f"{late.name}.tell", "succeeded", kind="producer")
        [event] = await memory.topics.peek(words, ids=["1"])
    assert event.payload == "after None"  # a repaired producer starts afresh


async def test_a_producer_publishes_only_to_topics_that_it_declares(memory: App) -> None:
    pipeline = Pipeline(f"strict-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)
    other: Topic[str] = Topic("somewhere else", str)

    @pipeline.producer(every="1h", publishes=[words])
    async def tell(ctx: ProducerContext, state: str | None) -> None:
        ctx.publish(words if state is None else other, "a", id="1", key="k")

    assert (await produce(tell)).events == [PublishedEvent(words.name, "1", "a", "k")]
    with pytest.raises(BadInput, match="is not in publishes="):
        await produce(tell, "wrong")


# --- operators ------------------------------------------------------------------------------------


async def test_a_trigger_leaves_the_schedule_and_the_failures_as_they_are(memory: App) -> None:
    made = post()
    made.box += ["a"]
    async with working(memory, pipelines=[made.pipeline]):
        before = await memory.schedules.get(made.handler("read"))
        await memory.pipelines.trigger(made.name)
        await until_counts(memory, made.letters, made.handler("Book"), consumed=1)
        after = await memory.schedules.get(made.handler("read"))
    assert (after.next_at, after.state) == (before.next_at, before.state)


async def test_no_resume_starts_a_run_while_an_effect_is_uncertain(memory: App) -> None:
    made = post()
    made.book.befall(Trouble.REPLY_LOST)
    made.book.is_away = True

    async def is_uncertain() -> bool:
        return [each.state for each in await memory.effects.all()] == ["needs_reconcile"]

    async with working(memory, pipelines=[made.pipeline]):
        await memory.publish(made.letters, "a", id="1")
        await memory.publish(made.letters, "b", id="2")
        await until(is_uncertain)
        [run] = await runs_of(memory, made.handler("Book"))
        await memory.cancel(run.id, force=True)
        for name in (made.name, None):
            with pytest.raises(
                PipelineBlocked, match=r"Resolve the effect first\. For details: onward why"
            ):
                await memory.pipelines.resume(name)
        assert (await memory.pipelines.get(made.name)).state == "blocked"
        assert len(await runs_of(memory, made.handler("Book"))) == 1
        held = await counts(memory, made.letters, made.handler("Book"))
    assert (held["reserved"], held["pending"]) == (1, 1)


async def test_a_worker_that_starts_runs_no_consumer_without_new_events(memory: App) -> None:
    pipeline, words, reader = a_reader()

    async def choose(ctx: PrepareContext) -> Prepared[str]:
        return Prepared(data="")  # it leaves its events alone

    reader.choose = choose
    async with memory:
        async with memory.worker(pipelines=[pipeline]):
            await memory.publish(words, "a", id="1")
            await until_run(memory, f"{pipeline.name}.Read", "succeeded")
        marker = post()
        async with memory.worker(pipelines=[pipeline, marker.pipeline]):
            await memory.publish(marker.letters, "a", id="1")
            await until_counts(memory, marker.letters, marker.handler("Book"), consumed=1)
        runs = await runs_of(memory, f"{pipeline.name}.Read")
    assert len(runs) == 1


# --- the database ---------------------------------------------------------------------------------


def test_every_time_is_an_integer_in_every_table() -> None:
    connection = connect(None)
    migrate(connection, "memory")
    rows = connection.execute(
        "SELECT t.name, c.name, c.type FROM sqlite_schema AS t, pragma_table_info(t.name) AS c"
        " WHERE t.type = 'table' AND (c.name LIKE '%/_at' ESCAPE '/' OR c.name = 'due')"
    ).fetchall()
    connection.close()
    assert len(rows) > 20
    assert {kind for *_, kind in rows} == {"INTEGER"}


def test_a_commit_on_sqlite_is_on_the_disk() -> None:
    connection = connect(None)
    [full] = connection.execute("PRAGMA synchronous").fetchone()
    connection.close()
    assert full == 2
