"""Old runs are deleted by workers, as the app says; what a user sees of a run that is gone."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.core.instant import DAY
from onward.errors import BadInput, Conflict, NotFound, RunFailed
from onward.testing.clock import VirtualClock, VirtualLoop
from tests.kit.watching import check_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.retention import RetentionLike

T = TypeVar("T")

go = Signal("go", str)


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return await double(n)


@workflow
async def waits_long(n: int) -> str:
    part = await doubled(n)
    return f"{part} {await go.wait()}"


@workflow
async def ticks() -> None:
    """Lets the worker look for work, and so do maintenance, once a second for a few seconds."""
    for _ in range(120):
        await onward.sleep("1s")


@workflow
async def asks_for(run_id: str) -> int:
    return await doubled.options(id=run_id)(2)


def scene(play: Callable[[App, VirtualClock], Awaitable[T]], retention: RetentionLike) -> T:
    """Play a scene with a worker in virtual time, and check the database afterwards."""
    clock = VirtualClock()

    async def played() -> T:
        app = App(":memory:", clock=clock, spawn=None, retention=retention)
        async with app, app.worker():
            result = await play(app, clock)
            await check_database(app)
        return result

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(played())


async def later(app: App, clock: VirtualClock, days: int) -> None:
    """Let days pass, and then some time in which the worker does its maintenance."""
    clock.advance(days * DAY)
    await app.run(ticks)


def test_a_worker_deletes_old_runs_and_says_how_many(caplog: pytest.LogCaptureFixture) -> None:
    async def play(app: App, clock: VirtualClock) -> list[str]:
        run = await app.start(doubled.options(id="old"), 1)
        assert await run.result() == 2
        await later(app, clock, 7)
        return [each.id for each in await app.runs(name="doubled")]

    with caplog.at_level(logging.INFO, "onward.store"):
        assert scene(play, {}) == []
    [record] = [each for each in caplog.records if each.msg.startswith("retention.deleted")]
    assert "runs=1 records=1 messages=0 effects=0" in record.getMessage()


def test_retention_can_be_turned_off() -> None:
    async def play(app: App, clock: VirtualClock) -> list[str]:
        await app.run(doubled.options(id="old"), 1)
        await later(app, clock, 1000)
        return [each.id for each in await app.runs(name="doubled")]

    assert scene(play, None) == ["old"]


def test_a_handle_of_a_deleted_run_raises_not_found() -> None:
    async def play(app: App, clock: VirtualClock) -> None:
        run = await app.start(doubled.options(id="old"), 1)
        nameless = await app.start(doubled, 1)
        await asyncio.gather(run.result(), nameless.result())
        await later(app, clock, 1)
        for call in (run.result, run.info, run.history):
            with pytest.raises(NotFound, match="was deleted by retention at"):
                await call()
        for call in (nameless.result, nameless.info):
            with pytest.raises(NotFound, match="may have been deleted by retention"):
                await call()
        with pytest.raises(NotFound):
            await run.result(timeout=0)

    scene(play, "1d")


def test_a_start_with_the_id_of_a_deleted_run_is_recognised() -> None:
    async def play(app: App, clock: VirtualClock) -> None:
        first = await app.start(doubled.options(id="old"), 1)
        await first.result()
        await later(app, clock, 1)
        again = await app.start(doubled.options(id="old"), 1)
        assert again.uid == first.uid
        with pytest.raises(Conflict):
            await app.start(doubled.options(id="old"), 2)
        with pytest.raises(Conflict):
            await app.start(doubled.options(id="old", on_conflict="reject"), 1)
        assert await app.run(doubled.options(id="old", on_conflict="replace"), 3) == 6

        await later(app, clock, 1)
        clock.advance(30 * DAY)
        assert await app.run(doubled.options(id="old"), 4) == 8

    scene(play, "1d")


def test_a_child_cannot_have_the_id_of_a_deleted_run() -> None:
    async def play(app: App, clock: VirtualClock) -> None:
        await app.run(doubled.options(id="old"), 2)
        await later(app, clock, 1)
        with pytest.raises(RunFailed, match="was deleted"):
            await app.run(asks_for, "old")

    scene(play, "1d")


def test_a_parent_that_waits_long_replays_with_its_child_still_there() -> None:
    async def play(app: App, clock: VirtualClock) -> str:
        run = await app.start(waits_long, 1)
        await later(app, clock, 400)
        [child] = await app.runs(parent=run.id)
        assert child.state == "succeeded"
        await run.signal(go, "on")
        return await run.result()

    assert scene(play, "1d") == "2 on"


@pytest.mark.parametrize("given", [{"ready": "1d"}, "soon", {"failed": -1}])
def test_a_retention_that_makes_no_sense_is_refused(given: RetentionLike) -> None:
    with pytest.raises(BadInput):
        App(":memory:", retention=given)
