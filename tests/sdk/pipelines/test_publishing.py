"""Publishing from outside a run: one event, many, in a transaction, without an event loop."""

from __future__ import annotations

import sqlite3
from itertools import count
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from onward.errors import BadInput, BadPipeline, NotFound, RunFailed, Unencodable
from onward.pipelines import Consumer, Input, Pipeline, Prepared, Topic
from tests.sdk.pipelines.post import until_counts

if TYPE_CHECKING:
    from pathlib import Path

    from onward.pipelines import PrepareContext

numbers = count(1)
EMPTY = {"pending": 0, "reserved": 0, "consumed": 0, "skipped": 0}


def a_log(*, parallel: bool = False) -> tuple[Pipeline, Topic[str]]:
    """Return a pipeline whose consumer takes every word."""
    log = Pipeline(f"log-{next(numbers)}", parallel=parallel)
    words = log.topic(f"{log.name}.words", str)

    @log.consumer(subscribes=[words])
    class Take(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared(reserve=await ctx.peek(words, limit=1000))

    return log, words


async def test_a_publish_declares_the_pipeline_of_a_new_topic(app: App) -> None:
    log, words = a_log()
    async with app:
        assert await app.publish(words, "hello", id="1")

        assert await app.topics.counts(words) == {f"{log.name}.Take": EMPTY | {"pending": 1}}
        [info] = await app.pipelines.list()
        assert (info.name, info.topics) == (log.name, (words.name,))


async def test_a_publish_does_not_undo_what_other_code_has_declared(app: App) -> None:
    older, words = a_log()
    newer = Pipeline(older.name)
    newer.topics += older.topics
    newer.handlers += older.handlers

    @newer.consumer(subscribes=[words])
    class Also(Consumer[None, None]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            return Prepared()

    async with app:
        await app.pipelines.declare(newer)
        newer.handlers = older.handlers  # as in a process that has not been deployed yet
        await app.publish(words, "hello", id="1")

        assert set(await app.topics.counts(words)) == {f"{older.name}.Take", f"{older.name}.Also"}


async def test_a_wrong_pipeline_is_refused_before_anything_is_published(app: App) -> None:
    log, words = a_log()
    log.consumer()(Consumer)
    async with app:
        with pytest.raises(BadPipeline, match="subscribes to no topic"):
            await app.publish(words, "hello", id="1")
        assert await app.topics.list() == []


async def test_a_process_that_has_only_the_topic_declares_nothing(app: App) -> None:
    shop = Pipeline(f"shop-{next(numbers)}")
    orders = shop.topic(f"{shop.name}.orders", int)
    async with app:
        with pytest.raises(NotFound, match="there is no topic"):
            await app.publish(orders, 7, id="7")
        assert await app.pipelines.list() == []


async def test_an_id_is_published_once(app: App) -> None:
    _, words = a_log()
    async with app:
        assert await app.publish(words, "hello", id="1")
        assert not await app.publish(words, "hello again", id="1")

        [event] = await app.topics.peek(words)
        assert (event.id, event.payload) == ("1", "hello again")  # nobody had taken it yet


async def test_a_topic_can_be_named(app: App) -> None:
    log, words = a_log()
    async with app:
        with pytest.raises(NotFound, match="there is no topic"):
            await app.publish(words.name, "hello", id="1")
        await app.pipelines.declare(log)
        assert await app.publish(words.name, "hello", id="1", key="k")

        [event] = await app.topics.peek(words.name)
        assert (event.payload, event.key) == ("hello", "k")


async def test_ten_thousand_events_are_one_call(app: App) -> None:
    log, words = a_log(parallel=True)
    texts = [f"word {n}" for n in range(10_000)]
    async with app:
        await app.publish(words, "word 7", id="word 7")
        new = await app.publish_many(words, texts, id=str, key=lambda text: text[-1])

        assert new == 9_999
        assert (await app.topics.counts(words))[f"{log.name}.Take"]["pending"] == 10_000
        assert await app.publish_many(words, [], id=str) == 0


async def test_a_bad_event_publishes_none_of_them(app: App) -> None:
    log, words = a_log()
    async with app:
        await app.pipelines.declare(log)
        with pytest.raises(Unencodable, match="payload"):
            await app.publish_many(words, ["a", 7], id=str)  # type: ignore[misc]  # 7 is a mistake
        with pytest.raises(BadInput, match="the id of an event is empty"):
            await app.publish(words, "hello", id="")
        assert (await app.topics.counts(words))[f"{log.name}.Take"] == EMPTY


async def test_an_event_names_the_input_that_it_comes_from(app: App) -> None:
    log, words = a_log()
    call = Input("shop", "webhook", "7", "Order 7")
    async with app:
        await app.publish(words, "hello", id="1", input=call)
        await app.publish_many(words, ["a", "b"], id=str, input=lambda _: call)

        [info] = await app.inputs.list(source="shop", text="rder 7")
        assert (info.pipeline, info.external_id, info.title) == (log.name, "7", "Order 7")
        report = await app.inputs.get(info.id)
        assert {event.id for event in report.events} == {"1", "a", "b"}

        with pytest.raises(BadInput, match="input= needs a pipeline"):
            await app.publish(words.name, "hello", id="2", input=call)


async def test_an_app_in_a_body_does_not_publish(app: App) -> None:
    _, words = a_log()

    @workflow(name="careless")
    async def careless() -> None:
        await app.publish(words, "hello", id="1")

    async with app, app.worker(workflows=[careless], pipelines=[]):
        with pytest.raises(RunFailed, match=r"would be repeated .* Use onward\.publish"):
            await app.run(careless)


def test_a_sync_app_publishes_and_operates(url: str) -> None:
    log, words = a_log()
    consumer = f"{log.name}.Take"
    with App(url).sync() as app:
        app.pipelines.declare(log)
        assert app.publish(words, "hello", id="1")
        assert app.publish_many(words, ["a", "b"], id=str) == 2
        assert app.topics.counts(words) == {consumer: EMPTY | {"pending": 3}}
        assert app.topics.skip(words, ["a"], reason="a test") == 1
        assert app.topics.replay(words, "a") == 1
        assert app.pipelines.get(log.name).state == "active"
        assert app.inputs.list() == []


async def test_events_are_published_with_the_commit_of_the_caller(tmp_path: Path) -> None:
    log, words = a_log()
    file = tmp_path / "app.db"
    app = App(file)
    async with app:
        await app.pipelines.declare(log)
        with sqlite3.connect(file) as connection:
            await app.within(connection).publish(words, "kept", id="1", key="k")
        connection.execute("BEGIN")
        await app.within(connection).publish(words, "lost", id="2")
        connection.rollback()
        connection.close()
        async with app.worker(pipelines=[log]):
            await until_counts(app, words, f"{log.name}.Take", consumed=1)
        [event] = await app.topics.peek(words, ids=["1"])
        [topic] = await app.topics.list()
    assert (event.payload, event.key) == ("kept", "k")
    assert topic.published == 1


def test_a_sync_app_publishes_with_the_commit_of_the_caller(tmp_path: Path) -> None:
    log, words = a_log()
    file = tmp_path / "app.db"
    with App(file).sync() as app:
        app.pipelines.declare(log)
        with sqlite3.connect(file) as connection:
            app.within(connection).publish(words, "hello", id="1")
        rows = connection.execute("SELECT topic, message FROM onward_unpublished").fetchall()
        connection.close()
    assert rows == [(words.name, "1")]
