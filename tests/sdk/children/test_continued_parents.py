"""Children that are cancelled with their parent stay with it when it continues as a new run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, workflow
from onward.errors import RunCancelled
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from onward.testing.clock import VirtualClock


@workflow
async def sleeps() -> None:
    await onward.sleep(1000)


@workflow
async def ends_after(seconds: float) -> float:
    await onward.sleep(seconds)
    return seconds


@workflow
async def continues(rounds: int) -> None:
    if rounds == 2:
        await onward.start(sleeps.options(id="child", cancel_with_parent=True))
    await onward.sleep(10)
    if rounds:
        onward.continue_as_new(rounds - 1)


@workflow
async def starts_one_each_round(seconds: float) -> float:
    child = await onward.start(ends_after.options(cancel_with_parent=True), seconds)
    if seconds < 10:
        onward.continue_as_new(10.0)
    return await child.result()


async def state_of(app: App, run: str = "child") -> str:
    return (await (await app.get(run)).info()).state


def test_a_pause_of_a_continued_run_holds_the_children_of_the_runs_before() -> None:
    async def scene(app: App, _: VirtualClock) -> list[str]:
        async with app.worker():
            await app.start(continues.options(id="r"), 2)
            await asyncio.sleep(25)
            states = [await state_of(app)]
            await app.pause("r")
            states.append(await state_of(app))
            await app.resume("r")
            await asyncio.sleep(1)
            return [*states, await state_of(app)]

    assert in_virtual_time(scene) == ["waiting", "paused", "waiting"]


@pytest.mark.parametrize("how", ["end", "cancel", "force"])
def test_a_continued_run_ends_with_the_children_of_the_runs_before(how: str) -> None:
    async def scene(app: App, _: VirtualClock) -> str:
        async with app.worker():
            run = await app.start(continues.options(id="r"), 2)
            await asyncio.sleep(25)
            if how == "end":
                await run.result(timeout=100)
            else:
                await run.cancel(force=how == "force")
                with pytest.raises(RunCancelled):
                    await run.result(timeout=100)
            await asyncio.sleep(1)
            return await state_of(app)

    assert in_virtual_time(scene) == "cancelled"


def test_a_continued_run_hears_of_its_own_child_not_of_one_with_the_same_name_before() -> None:
    async def scene(app: App, _: VirtualClock) -> float:
        async with app.worker():
            return await app.run(starts_one_each_round, 1.0)

    assert in_virtual_time(scene) == 10
