"""Policies with `within`: all sends of an effect together take no longer than that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, NotApplied, Retry, effect, workflow
from onward.core.instant import MINUTE
from onward.testing.clock import VirtualClock, VirtualLoop
from tests.kit.ledgers import effect_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.sdk.effects import EffectInfo

sent: list[int] = []
EVERY_TEN_SECONDS = Retry(attempts=None, delay="10s", factor=1, jitter=0, within="35s")


@effect(retry=EVERY_TEN_SECONDS)
async def refused() -> str:
    sent.append(1)
    raise NotApplied("busy")


@effect(retry=EVERY_TEN_SECONDS, idempotency_window="1d")
async def lost() -> str:
    sent.append(1)
    raise ConnectionError("lost")


@effect(retry=EVERY_TEN_SECONDS, approve=True)
async def approved() -> str:
    sent.append(1)
    raise NotApplied("busy")


@workflow
async def one(which: str) -> str:
    call = {"refused": refused, "lost": lost, "approved": approved}[which]
    try:
        return await call()
    except NotApplied as error:
        return str(error)


def in_virtual_time(work: Callable[[App, VirtualClock], Awaitable[EffectInfo]]) -> EffectInfo:
    sent.clear()
    clock = VirtualClock()

    async def go() -> EffectInfo:
        async with App(":memory:", clock=clock, spawn=None) as app:
            return await work(app, clock)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(go())


@pytest.mark.parametrize("warm", [0, 10])
@pytest.mark.parametrize(("which", "state"), [("refused", "failed"), ("lost", "indeterminate")])
def test_nothing_is_sent_after_the_time_for_all_attempts(which: str, state: str, warm: int) -> None:
    async def work(app: App, clock: VirtualClock) -> EffectInfo:
        async with app.worker(workflows=[one], warm=warm):
            run = await app.start(one, which)
            await asyncio.sleep(120)
            [info] = await app.effects.of(run.id)
            return info

    info = in_virtual_time(work)

    assert (info.state, info.attempt, len(sent)) == (state, 4, 4)


@pytest.mark.parametrize("warm", [0, 10])
def test_the_time_before_an_approval_does_not_count(warm: int) -> None:
    async def work(app: App, clock: VirtualClock) -> EffectInfo:
        async with app.worker(workflows=[one], warm=warm):
            run = await app.start(one, "approved")
            info = await effect_of(app, run, "planned")
            clock.advance(MINUTE)
            await app.effects.approve(info.id, reason="fine")
            await asyncio.sleep(120)
            return await app.effects.get(info.id)

    info = in_virtual_time(work)

    assert (info.state, info.attempt, len(sent)) == ("failed", 4, 4)


def test_a_retry_of_the_run_has_all_of_the_time_again() -> None:
    async def work(app: App, clock: VirtualClock) -> EffectInfo:
        async with app.worker(workflows=[fails], warm=0):
            run = await app.start(fails)
            await asyncio.sleep(120)
            again = await app.retry(run.id)
            await asyncio.sleep(120)
            [info] = await app.effects.of(again.id)
            return info

    info = in_virtual_time(work)

    assert (info.state, info.attempt, len(sent)) == ("failed", 4, 8)


@workflow
async def fails() -> Any:
    return await refused()
