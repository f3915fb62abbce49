"""An effect that the cleanup of a cancelled run calls can be approved, whatever the clocks say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, effect, step, workflow
from onward.core.instant import DAY
from onward.errors import RunCancelled
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from onward import Run
    from onward.testing.clock import VirtualClock


@workflow
async def ends_at_once() -> None:
    """Do nothing; the worker learns the time from answers."""


@step
async def work() -> None:
    await asyncio.sleep(1000)


@effect(approve=True)
async def refund() -> None:
    """Pay the money back."""


@workflow
async def refunds() -> None:
    try:
        await work()
    finally:
        await refund()


async def state_after_approval(app: App, run: Run[Any]) -> str:
    """Approve the effect that a cancelled run waits for, and return its final state."""
    [planned] = await app.effects.pending()
    await app.effects.approve(planned.id, reason="fine")
    with pytest.raises(RunCancelled):
        await run.result(timeout=100)
    [settled] = await app.effects.of(run.id)
    return settled.state


def test_an_effect_called_in_the_very_moment_of_the_cancel_can_be_approved() -> None:
    async def scene(app: App, _: VirtualClock) -> str:
        async with app.worker():
            run = await app.start(refunds)
            await asyncio.sleep(1)
            await run.cancel()
            await asyncio.sleep(1)
            return await state_after_approval(app, run)

    assert in_virtual_time(scene) == "applied"


def test_an_effect_that_a_retry_takes_over_can_be_approved_in_its_cleanup() -> None:
    async def scene(app: App, _: VirtualClock) -> str:
        async with app.worker():
            first = await app.start(refunds.options(id="r"))
            await asyncio.sleep(1)
            await first.cancel()
            with pytest.raises(RunCancelled):
                await first.result(timeout=100)
            run = await app.retry("r")
            await asyncio.sleep(1)
            await run.cancel()
            await asyncio.sleep(1)
            return await state_after_approval(app, run)

    assert in_virtual_time(scene) == "applied"


def test_an_effect_of_a_cleanup_can_be_approved_after_the_clock_was_reset() -> None:
    async def scene(app: App, clock: VirtualClock) -> str:
        clock.jump(DAY)
        async with app.worker():
            run = await app.start(refunds)
            await asyncio.sleep(1)
            await run.cancel()
            clock.set_back(DAY)
            await app._store.reset_clock()
            await app.run(ends_at_once)
            await asyncio.sleep(1)
            return await state_after_approval(app, run)

    assert in_virtual_time(scene) == "applied"
