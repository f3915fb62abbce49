"""Pipelines from end to end: producers publish, consumers reserve, change and go on."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import workflow
from onward.errors import TopicFull
from onward.pipelines import Applied, Consumer, Nothing, Pipeline, Prepared
from tests.kit.watching import until, working
from tests.sdk.pipelines.post import counts, numbers, post, runs_of, until_counts, until_run

if TYPE_CHECKING:
    from onward import App
    from onward.pipelines import NextContext, Outcome, PrepareContext


async def test_letters_reach_the_book_and_are_counted(app: App) -> None:
    made = post()
    made.box += ["a", "b", "c"]
    async with working(app, pipelines=[made.pipeline]):
        await app.pipelines.trigger(made.name)
        await until_counts(app, made.rows, made.handler("Count"), consumed=3)
    assert [request.arguments for request in made.book.applied] == [("a",), ("b",), ("c",)]
    assert sorted(made.counted) == ["row of letter-0", "row of letter-1", "row of letter-2"]
    assert made.outcomes[:3] == [
        Applied("receipt 1"), Applied("receipt 2"), Applied("receipt 3"),
    ]  # fmt: skip


async def test_a_producer_keeps_its_cursor(app: App) -> None:
    made = post()
    made.box += ["a"]
    async with working(app, pipelines=[made.pipeline]):
        await app.pipelines.trigger(made.name)
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        made.box += ["b"]
        await app.pipelines.trigger(made.name, "read")
        await until_counts(app, made.letters, made.handler("Book"), consumed=2)
    assert made.prepared == [["a"], ["b"]]


async def test_a_consumer_run_says_how_far_it_came(app: App) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        run = await until_run(app, made.handler("Book"), "succeeded")
        names = [(row.kind, row.name) for row in await (await app.get(run.id)).history()]
    assert run.phase == "committed"
    assert names == [("step", "prepare"), ("effect", f"{made.name}.write"), ("step", "next")]


async def test_the_ledger_has_the_title_that_prepare_gave(app: App) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        [effect] = await app.effects.all()
    assert (effect.title, effect.state) == ("Write a", "applied")


async def test_one_run_reserves_several_events(app: App) -> None:
    made = post(limit=10)
    letters = [(f"letter {n}", str(n)) for n in range(5)]
    async with app:
        for text, name in letters:
            await app.publish(made.letters, text, id=name)
        async with app.worker(pipelines=[made.pipeline]):
            await until_counts(app, made.letters, made.handler("Book"), consumed=5)
    assert made.prepared == [[text for text, _ in letters]]
    assert len(made.book.applied) == 1


async def test_the_same_id_is_published_once(app: App) -> None:
    made = post()
    async with working(app, pipelines=[made.pipeline]):
        await app.publish(made.letters, "a", id="1")
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
        await app.publish(made.letters, "other", id="1")
        assert await counts(app, made.letters, made.handler("Book")) == {
            "pending": 0, "reserved": 0, "consumed": 1, "skipped": 0,
        }  # fmt: skip
    assert len(made.book.applied) == 1


async def test_a_consumer_without_mutate_gets_nothing_as_outcome(app: App) -> None:
    pipeline = Pipeline(f"plain-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)
    seen: list[Any] = []

    @pipeline.consumer(subscribes=[words])
    class Log(Consumer[list[str], str]):
        async def prepare(self, ctx: PrepareContext, state: list[str] | None) -> Prepared[str]:
            events = await ctx.peek(words, limit=1)
            return Prepared(reserve=events, data=events[0].payload if events else "")

        async def next(
            self, ctx: NextContext, prepared: Prepared[str], outcome: Outcome
        ) -> list[str] | None:
            seen.append((prepared.data, outcome))
            return None

    async with working(app, pipelines=[pipeline]):
        await app.publish(words, "hello", id="1")
        await until_counts(app, words, f"{pipeline.name}.Log", consumed=1)
    assert ("hello", Nothing()) in seen


async def test_a_workflow_publishes_an_event_once(app: App) -> None:
    made = post()
    topic = made.letters

    @workflow(name=f"{made.name}.send")
    async def send(text: str) -> str:
        await onward.publish(topic, text, id=f"from {text}")
        await onward.sleep("10ms")
        return text

    async with working(app, pipelines=[made.pipeline], workflows=[send]):
        assert await app.run(send, "a") == "a"
        await until_counts(app, made.letters, made.handler("Book"), consumed=1)
    assert made.prepared == [["a"]]


async def test_a_full_topic_refuses_publishers(app: App) -> None:
    pipeline = Pipeline(f"full-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str, max_pending=2)

    @pipeline.consumer(subscribes=[words])
    class Never(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared()

    async with app:
        await app.pipelines.declare(pipeline)
        await app.publish(words, "a", id="1")
        await app.publish(words, "b", id="2")
        with pytest.raises(TopicFull, match="2 pending events"):
            await app.publish(words, "c", id="3")


async def test_a_prepare_that_reserves_nothing_is_not_run_again_without_a_new_event(
    app: App,
) -> None:
    pipeline = Pipeline(f"picky-{next(numbers)}")
    words = pipeline.topic(f"{pipeline.name}.words", str)
    looked: list[int] = []

    @pipeline.consumer(subscribes=[words])
    class Pairs(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            events = await ctx.peek(words)
            looked.append(len(events))
            return Prepared(reserve=events if len(events) == 2 else [])

    async with working(app, pipelines=[pipeline]):
        await app.publish(words, "a", id="1")
        await until(lambda: looked == [1])
        await until_run(app, f"{pipeline.name}.Pairs", "succeeded")
        await app.publish(words, "b", id="2")
        await until_counts(app, words, f"{pipeline.name}.Pairs", consumed=2)
    assert looked == [1, 2]


async def test_a_serial_pipeline_never_has_two_open_runs(app: App) -> None:
    made = post()
    made.box += [str(n) for n in range(10)]
    async with working(app, pipelines=[made.pipeline]):
        await app.pipelines.trigger(made.name)
        await until_counts(app, made.rows, made.handler("Count"), consumed=10)
        runs = [
            *await runs_of(app, made.handler("read"), "producer"),
            *await runs_of(app, made.handler("Book")),
            *await runs_of(app, made.handler("Count")),
        ]
    spans = sorted((run.started_at, run.finished_at) for run in runs if run.started_at)
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert end is not None
        assert end <= start
