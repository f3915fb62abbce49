"""Cached results of steps: runs share them until they expire, and no replay reads them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Retry, Signal, step, workflow
from onward.engine.maintenance import Maintenance
from onward.errors import BadInput
from tests.kit.virtual_time import in_virtual_time
from tests.kit.watching import FALSY, lasting, until_state, working

if TYPE_CHECKING:
    from onward import Run
    from onward.testing.clock import VirtualClock

calls: list[Any] = []
broken: set[str] = set()
values: list[Any] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    calls.clear()
    broken.clear()
    values.clear()


@step(cache="1h")
async def rate(currency: str, day: int = 1) -> float:
    calls.append(currency)
    return 1.5


@step(cache="1h")
def rate_in_a_thread(currency: str) -> float:
    calls.append(currency)
    return 2.5


@step(cache="1h", cache_key=lambda user, _: f"user {user}")
async def profile(user: int, token: str) -> str:
    calls.append(token)
    return f"{user} by {token}"


@step(cache="1h", version="2", name="rate")
async def newer_rate(currency: str) -> float:
    calls.append("newer")
    return 2.0


@step(cache="1h", retry=Retry(attempts=1))
async def fragile(n: int) -> int:
    calls.append(n)
    if broken:
        raise ValueError("broken")
    return n


@step(cache="1h")
async def anything() -> Any:
    calls.append("anything")
    return values[0]


@step(cache="1h", name="shape")
async def text_shape() -> str:
    calls.append("text")
    return "five"


@step(cache="1h", name="shape")
async def number_shape() -> int:
    calls.append("number")
    return 5


@step(cache="1h", queue="other")
async def routed(n: int) -> int:
    calls.append(n)
    return n


@step(cache="1h", cache_key=lambda n: n)
async def badly_keyed(n: int) -> int:
    return n


@workflow
async def convert(currency: str) -> float:
    return await rate(currency)


@workflow
async def convert_in_a_thread(currency: str) -> float:
    return await rate_in_a_thread(currency)


@workflow
async def named(currency: str) -> float:
    return await rate(day=1, currency=currency)


@workflow
async def greet(user: int, token: str) -> str:
    return await profile(user, token)


@workflow
async def convert_newer(currency: str) -> float:
    return await newer_rate(currency)


@workflow
async def try_it(n: int) -> int:
    return await fragile(n)


@workflow
async def give() -> Any:
    return await anything()


@workflow
async def shaped(kind: str) -> Any:
    return await (text_shape() if kind == "text" else number_shape())


@workflow
async def elsewhere(n: int) -> int:
    return await routed(n)


@workflow
async def many() -> list[float]:
    return [result async for result in _rates()]


async def _rates() -> Any:
    for result in await rate_in_a_thread.map(["EUR", "EUR", "USD"]):
        yield result


@workflow
async def wait_after() -> str:
    first = await rate("EUR")
    await go.wait()
    return f"{first} {await rate('USD')}"


@workflow
async def keyed() -> int:
    return await badly_keyed(1)


async def test_runs_share_a_result(app: App) -> None:
    async with working(app):
        assert [await app.run(convert, "EUR") for _ in range(3)] == [1.5, 1.5, 1.5]
        assert await app.run(named, "EUR") == 1.5
        assert calls == ["EUR"]
        assert await app.run(convert, "USD") == 1.5
        assert calls == ["EUR", "USD"]


async def test_a_step_in_a_thread_shares_its_result(app: App) -> None:
    async with working(app):
        assert [await app.run(convert_in_a_thread, "EUR") for _ in range(2)] == [2.5, 2.5]
        assert calls == ["EUR"]


@lasting
async def test_a_result_survives_restarts(url: str) -> None:
    for _ in range(2):
        app = App(url)
        async with working(app):
            assert await app.run(convert, "EUR") == 1.5
    assert calls == ["EUR"]


async def test_calls_with_the_same_cache_key_share_a_result(app: App) -> None:
    async with working(app):
        assert await app.run(greet, 1, "a") == "1 by a"
        assert await app.run(greet, 1, "b") == "1 by a"
        assert await app.run(greet, 2, "b") == "2 by b"
        assert calls == ["a", "b"]


async def test_another_version_does_not_read_older_results(app: App) -> None:
    async with app:
        async with working(app):
            assert await app.run(convert, "EUR") == 1.5
        async with working(app):  # the next deploy
            assert await app.run(convert_newer, "EUR") == 2.0
        assert {(each.step, each.version) for each in await app.cache.list()} == {
            ("rate", None),
            ("rate", "2"),
        }


def test_a_result_expires_in_the_time_of_the_database() -> None:
    async def scene(app: App, _: VirtualClock) -> None:
        async with app.worker(workflows=[convert]):
            await app.run(convert, "EUR")
            await asyncio.sleep(3599)
            await app.run(convert, "EUR")
            assert calls == ["EUR"]
            await asyncio.sleep(2)
            assert await app.cache.list() == []
            await app.run(convert, "EUR")
            assert calls == ["EUR", "EUR"]

    in_virtual_time(scene)


def test_expired_results_are_deleted_by_maintenance() -> None:
    async def scene(app: App, clock: VirtualClock) -> None:
        async def expired() -> list[Any]:
            return list(await app._store.read(lambda tx: tx.fetch("has_expired_cache")))

        async with app.worker(workflows=[convert]):
            await app.run(convert, "EUR")
        maintenance = Maintenance(app._store, clock)
        await asyncio.sleep(3600)
        assert await expired() != []
        await maintenance.tick()
        assert await expired() == []

    in_virtual_time(scene)


async def test_a_failure_is_never_cached(app: App) -> None:
    async with working(app):
        broken.add("now")
        run: Run[int] = await app.start(try_it.options(id="t"), 1)
        await until_state(run, "failed")
        assert await app.cache.list() == []
        broken.clear()
        assert await (await app.retry("t")).result() == 1
        assert await app.run(try_it, 1) == 1
        assert calls == [1, 1]


@pytest.mark.parametrize("value", FALSY, ids=repr)
async def test_a_falsy_result_is_a_hit(memory: App, value: object) -> None:
    async with working(memory):
        values.append(value)
        assert [await memory.run(give) for _ in range(2)] == [value, value]
        assert calls == ["anything"]


async def test_a_replay_reads_history_and_not_the_cache(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(wait_after)
        await until_state(run, "waiting")
        assert await app.cache.purge(step="rate") == 1
        await run.signal(go, "on")
        assert await run.result() == "1.5 1.5"
        assert calls == ["EUR", "USD"]


async def test_a_fork_from_a_cached_step_reads_the_cache_until_it_is_purged(app: App) -> None:
    async with working(app):
        await app.run(convert.options(id="c"), "EUR")
        assert await (await app.fork("c", "rate")).result() == 1.5
        assert calls == ["EUR"]
        await app.cache.purge(step="rate")
        assert await (await app.fork("c", "rate")).result() == 1.5
        assert calls == ["EUR", "EUR"]


async def test_a_result_that_no_longer_fits_the_annotation_is_replaced(app: App) -> None:
    async with app:
        async with working(app):
            assert await app.run(shaped, "text") == "five"
        async with working(app):  # the next deploy
            assert await app.run(shaped, "number") == 5
            assert await app.run(shaped, "number") == 5
        assert calls == ["text", "number"]


async def test_routed_steps_and_map_items_share_results(app: App) -> None:
    async with working(app, queues=["default", "other"]):
        assert [await app.run(elsewhere, 1) for _ in range(2)] == [1, 1]
        assert calls == [1]
        calls.clear()
        assert await app.run(many) == [2.5, 2.5, 2.5]
        assert await app.run(many) == [2.5, 2.5, 2.5]
        assert set(calls) == {"EUR", "USD"}
        assert len(calls) <= 3  # items at the same time may both do the work


async def test_many_runs_at_once_write_the_same_entry(app: App) -> None:
    async with working(app):
        runs = [await app.start(convert, "EUR") for _ in range(20)]
        assert {await run.result() for run in runs} == {1.5}
        [entry] = await app.cache.list()
        assert entry.step == "rate"


async def test_entries_are_listed_without_values_and_purged(app: App) -> None:
    async with working(app):
        await app.run(convert.options(id="c-1"), "EUR")
        await app.run(convert_in_a_thread.options(id="c-2"), "EUR")
        entries = await app.cache.list()
        assert {(each.step, each.run, each.size) for each in entries} == {
            ("rate", "c-1", len(b"json:1.5")),
            ("rate_in_a_thread", "c-2", len(b"json:2.5")),
        }
        assert all((each.expires_at - each.created_at).seconds == 3600 for each in entries)
        first, second = entries
        assert await app.cache.list(limit=1) == [first]
        assert await app.cache.list(limit=1, after=first.key) == [second]
        assert await app.cache.list(step="nothing") == []
        with pytest.raises(BadInput, match="without a filter"):
            await app.cache.purge()
        assert await app.cache.purge(key=first.key) == 1
        assert await app.cache.purge(all=True) == 1
        assert await app.cache.list() == []


async def test_a_namespace_has_a_cache_of_its_own(url: str) -> None:
    if url == ":memory:":
        return
    for namespace in ("one", "two"):
        app = App(url, namespace=namespace)
        async with working(app):
            await app.run(convert, "EUR")
    assert calls == ["EUR", "EUR"]


async def test_a_cache_key_that_is_no_text_fails_the_step(memory: App) -> None:
    async with working(memory):
        run = await memory.start(keyed.options(retry=None))
        await until_state(run, "failed", "waiting")
        [record, *_] = [each for each in await run.history() if each.kind == "step"]
        assert "cache_key of step 'badly_keyed'" in str(record.error)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="no effect without cache="):
        step(version="2")(rate.fn)
    with pytest.raises(BadInput, match="not a positive duration"):
        step(cache=0)(rate.fn)

    class Bank:
        @step(cache="1h")
        async def ask(self) -> int:
            return 1

    with pytest.raises(BadInput, match="is a method"):
        Bank().ask  # noqa: B018 - binding it is refused


async def test_outside_a_run_a_cached_step_is_a_plain_call() -> None:
    assert [await rate("EUR") for _ in range(2)] == [1.5, 1.5]
    assert calls == ["EUR", "EUR"]
