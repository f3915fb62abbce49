"""Pausing and resuming: nothing new is begun, nothing that comes meanwhile is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import NotFound, RunPaused
from tests.kit.watching import ends, lasting, steps_of, until, until_state, working

if TYPE_CHECKING:
    from onward import Run
    from onward.runtime.worker.session import WorkerSession

begun: Counter[str] = Counter()
gate: list[asyncio.Event] = []
word = Signal("word", str)


@pytest.fixture(autouse=True)
def _nothing_is_begun() -> None:
    begun.clear()
    gate.clear()


@step
async def plain_work(name: str) -> str:
    begun[name] += 1
    return name


@step
async def slow_work(name: str) -> str:
    begun[name] += 1
    gate.append(asyncio.Event())
    await gate[-1].wait()
    return name


@workflow
async def listener(words: int) -> list[str]:
    heard = [await word.wait() for _ in range(words)]
    await plain_work("after")
    return heard


@workflow
async def two_works() -> str:
    await slow_work("one")
    return await plain_work("two")


@workflow
async def no_work() -> str:
    begun["body"] += 1
    return "done"


@workflow
async def napper() -> str:
    await onward.sleep("1s")
    return await plain_work("awake")


@workflow
async def begetter() -> str:
    await slow_work("before")
    await onward.start(no_work)
    return await no_work()


async def is_begun(name: str) -> None:
    async def there() -> bool:
        return begun[name] > 0

    await until(there)


async def is_held(worker: WorkerSession, run: Run[str]) -> None:
    async def there() -> bool:
        return worker.running[run.uid]._is_held

    await until(there)


async def test_a_waiting_run_is_paused_and_goes_on_with_what_came_meanwhile(app: App) -> None:
    async with working(app):
        run = await app.start(listener, 3)
        await run.signal(word, "a")
        await until_state(run, "waiting")
        assert await app.pause(run.id)
        await until_state(run, "paused")
        assert (await run.info()).reason == "operator"
        await run.signal(word, "b")
        await run.signal(word, "c")
        assert await run.state() == "paused"
        assert await steps_of(run) == ["word"]

        assert await app.resume(run.id)

        assert await run.result(timeout="60s") == ["a", "b", "c"]


async def test_a_step_that_runs_comes_to_its_end_and_the_next_does_not_begin(app: App) -> None:
    async with working(app) as worker:
        run = await app.start(two_works)
        await is_begun("one")
        await app.pause(run.id)
        await is_held(worker, run)
        gate[0].set()
        await until_state(run, "paused")

        assert begun == {"one": 1}
        assert await steps_of(run) == ["slow_work"]
        await app.resume(run.id)
        assert await run.result(timeout="60s") == "two"
        assert begun == {"one": 1, "two": 1}


async def test_a_paused_run_begins_no_child_and_no_other_run(app: App) -> None:
    async with working(app) as worker:
        run = await app.start(begetter)
        await is_begun("before")
        await app.pause(run.id)
        await is_held(worker, run)
        gate[0].set()
        await until_state(run, "paused")

        assert len(await app.runs()) == 1
        await app.resume(run.id)
        assert await run.result(timeout="60s") == "done"
        assert len(await app.runs()) == 3


@pytest.mark.parametrize("delay", ["0s", "50ms"])
async def test_a_run_that_is_paused_before_its_start_does_not_begin(app: App, delay: str) -> None:
    async with app:
        run = await app.start(no_work.options(delay=delay))
        assert await app.pause(run.id)
        async with working(app):
            await until_state(run, "paused")
            assert begun == {}

            await app.resume(run.id)
            assert await run.result(timeout="60s") == "done"


async def test_a_resume_before_the_pause_was_seen_leaves_the_run_as_it_is(app: App) -> None:
    async with working(app):
        run = await app.start(two_works)
        await is_begun("one")
        await app.pause(run.id)
        await app.resume(run.id)
        gate[0].set()

        assert await run.result(timeout="60s") == "two"


async def test_the_last_word_counts(app: App) -> None:
    async with working(app):
        run = await app.start(listener, 1)
        await until_state(run, "waiting")
        for _ in range(3):
            await app.pause(run.id)
            await app.resume(run.id)
        await app.pause(run.id)
        await until_state(run, "paused")
        await app.pause(run.id)
        await run.signal(word, "a")
        await app.resume(run.id)

        assert await run.result(timeout="60s") == ["a"]


async def test_a_time_that_comes_while_a_run_is_paused_counts_afterwards(app: App) -> None:
    async with working(app):
        run = await app.start(napper)
        await until_state(run, "waiting")
        await app.pause(run.id)
        await until_state(run, "paused")
        probe = await app.start(napper)  # its time comes later than that of the other
        await probe.result(timeout="60s")

        assert await run.state() == "paused"
        assert await steps_of(run) == []
        await app.resume(run.id)
        assert await run.result(timeout="60s") == "awake"


async def test_a_paused_run_is_cancelled(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(listener, 1)
        await until_state(run, "waiting")
        await app.pause(run.id)
        await until_state(run, "paused")

        assert await run.cancel()
        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")


@workflow
async def tidy_listener() -> str:
    try:
        return await word.wait()
    finally:
        await plain_work("tidied")


async def test_a_paused_run_that_is_cancelled_cleans_up(app: App) -> None:
    async with working(app):
        run = await app.start(tidy_listener)
        await until_state(run, "waiting")
        await app.pause(run.id)
        await run.cancel()
        await app.pause(run.id)
        await until_state(run, "cancelled")

        assert begun == {"tidied": 1}


async def test_a_run_that_is_paused_while_it_cleans_up_ends(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(slow_to_tidy)
        await until_state(run, "waiting")
        await run.cancel()
        await is_begun("tidying")
        await app.pause(run.id)
        gate[0].set()

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "operator")
        assert begun == {"tidying": 1, "tidied": 1}


@workflow
async def slow_to_tidy() -> str:
    try:
        return await word.wait()
    finally:
        await slow_work("tidying")
        await plain_work("tidied")


@lasting
async def test_a_paused_run_stays_paused_in_another_process(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(listener.options(id="a"), 1)
        await until_state(run, "waiting")
        await app.pause("a")
        await until_state(run, "paused")
    later = App(url)
    async with working(later):
        await later.signal("a", word, "x")
        assert await (await later.get("a")).state() == "paused"
        await later.resume("a")
        assert await (await later.get("a")).result(timeout="60s") == ["x"]


async def test_waiting_for_a_paused_run_can_raise(app: App) -> None:
    async with working(app):
        run = await app.start(listener.options(id="a"), 1)
        await until_state(run, "waiting")
        await app.pause("a")

        with pytest.raises(RunPaused, match="operator"):
            await run.result(timeout="60s", raise_paused=True)
        with pytest.raises(TimeoutError):
            await run.result(timeout="20ms")


async def test_waiting_for_a_paused_run_costs_next_to_nothing(app: App) -> None:
    async with working(app):
        run = await app.start(listener, 1)
        await until_state(run, "waiting")
        await app.pause(run.id)
        await until_state(run, "paused")
        looks = 0
        look = app._store.ends

        async def counted(uids: list[str]) -> object:
            nonlocal looks
            looks += 1
            return await look(uids)

        app._store.ends = counted
        with pytest.raises(TimeoutError):
            await run.result(timeout="200ms")

        assert looks < 10


async def test_what_is_over_or_not_there_cannot_be_paused(app: App) -> None:
    async with working(app):
        run = await app.start(no_work)
        await run.result(timeout="60s")

        assert not await app.pause(run.id)
        assert not await app.resume(run.id)
        with pytest.raises(NotFound):
            await app.pause("missing")
        with pytest.raises(NotFound):
            await app.resume("missing")
