"""A worker whose time is cut short, by Ctrl-C or an error around it, gives its runs back."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, effect, step, workflow
from tests.kit.watching import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from onward import Run

begun: list[str] = []


@pytest.fixture(autouse=True)
def _not_begun() -> None:
    begun.clear()


@step
async def dig() -> None:
    begun.append("dig")
    await asyncio.Event().wait()


@step
async def fetch_spade() -> None: ...


@effect
async def order_soil() -> None:
    begun.append("order_soil")
    await asyncio.Event().wait()


@workflow
async def garden() -> None:
    await fetch_spade()
    await asyncio.gather(dig(), dig())


@workflow
async def dig_and_order() -> None:
    await asyncio.gather(dig(), order_soil())


def have_begun(count: int) -> bool:
    return len(begun) == count


async def work_until(app: App, is_so: Callable[[], bool | Awaitable[bool]]) -> None:
    async with app.worker():
        await until(is_so)
        raise LookupError("the tool shed is locked")


async def stands(app: App, run: Run[Any]) -> tuple[str, int]:
    info = await run.info()
    return info.state, info.crashes


async def test_an_error_around_a_worker_is_no_crash_of_its_runs(app: App) -> None:
    async with app:
        run = await app.start(garden)
        for count in (2, 4):
            with pytest.raises(LookupError):
                await work_until(app, partial(have_begun, count))
            assert await stands(app, run) == ("ready", 0)


async def test_a_cancel_of_a_worker_is_no_crash_of_its_runs(app: App) -> None:
    async def work() -> None:
        async with app.worker():
            await asyncio.Event().wait()

    async with app:
        run = await app.start(garden)
        for count in (2, 4):
            working = asyncio.create_task(work())
            await until(partial(have_begun, count))
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert await stands(app, run) == ("ready", 0)
        assert await app._store.served_queues() == set()


async def test_a_worker_that_is_cancelled_as_it_leaves_leaves_at_once(app: App) -> None:
    async def work() -> None:
        async with app.worker():
            await until(partial(have_begun, 2))

    async with app:
        run = await app.start(garden)
        working = asyncio.create_task(work())
        await until(partial(have_begun, 2))
        _, left = await asyncio.wait([working], timeout=0.05)
        assert left  # it lets steps come to their end
        working.cancel()
        _, left = await asyncio.wait([working], timeout=8)
        assert not left
        assert await stands(app, run) == ("ready", 0)


async def test_an_effect_that_was_cut_short_is_uncertain(app: App) -> None:
    async def waits_for_a_verdict() -> bool:
        return [row.state for row in await app.effects.pending()] == ["indeterminate"]

    async with app:
        run = await app.start(dig_and_order)
        with pytest.raises(LookupError):
            await work_until(app, partial(have_begun, 2))
        assert await stands(app, run) == ("ready", 0)
        with pytest.raises(LookupError):
            await work_until(app, waits_for_a_verdict)
        assert begun.count("order_soil") == 1


async def begin_and_leave(url: str, *, first: bool) -> None:
    """Start a run, if it is the first time, and end with a worker in a task that is not awaited."""

    async def serve() -> None:
        app = App(url)
        async with app, app.worker():
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    async with App(url) as app:
        if first:
            await app.start(garden.options(id="garden"))
        await until(lambda: have_begun(2))
        assert not serving.done()


async def state_of(url: str) -> tuple[str, int]:
    async with App(url) as app:
        info = await (await app.get("garden")).info()
        return info.state, info.crashes


def test_a_loop_that_ends_with_a_worker_in_it_is_no_crash_of_its_runs(tmp_path: Path) -> None:
    url = str(tmp_path / "garden.db")
    for number in range(6):
        begun.clear()
        asyncio.run(begin_and_leave(url, first=number == 0))
        assert asyncio.run(state_of(url)) == ("ready", 0)
