"""A clock that is set while waits are on record: none of them ends before its time has passed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, NotApplied, Retry, Signal, effect, step, workflow
from onward.core.instant import DAY, HOUR
from onward.engine.clock import accept_steps, reset_clock
from onward.errors import RunCancelled
from onward.testing.faults import armed
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from onward import Run, Workflow
    from onward.core.instant import Duration
    from onward.testing.clock import VirtualClock

LENGTH = 20
go = Signal("go", str)


@step
async def real_seconds() -> float:
    """Return the time of a clock that is never set: that of the loop."""
    return asyncio.get_running_loop().time()


@step(retry=Retry(attempts=2, delay=LENGTH, jitter=0))
async def fails_once() -> None:
    if onward.current().attempt == 1:
        raise ConnectionError


@effect(retry=Retry(attempts=2, delay=LENGTH, jitter=0))
async def is_refused_once() -> None:
    if onward.current().attempt == 1:
        raise NotApplied("the receiver is closed")


@workflow
async def sleeps(begun: float) -> float:
    await onward.sleep(LENGTH)
    return await real_seconds() - begun


@workflow
async def listens(begun: float) -> float:
    with pytest.raises(TimeoutError):
        await go.wait(timeout=LENGTH)
    return await real_seconds() - begun


@workflow
async def tries_a_step(begun: float) -> float:
    await fails_once()
    return await real_seconds() - begun


@workflow
async def tries_an_effect(begun: float) -> float:
    await is_refused_once()
    return await real_seconds() - begun


@workflow
async def has_a_child(begun: float) -> float:
    return await sleeps(begun)


@workflow
async def starts_late(begun: float) -> float:
    return await real_seconds() - begun


@workflow
async def ends_at_once() -> None:
    """Do nothing."""


WAITS = [sleeps, listens, tries_a_step, tries_an_effect, has_a_child, starts_late]


async def start(app: App, waits: Workflow[[float], float]) -> Run[float]:
    delay = LENGTH if waits is starts_late else 0
    return await app.start(waits.options(delay=delay), asyncio.get_running_loop().time())


@pytest.mark.parametrize("step", [HOUR, DAY])
@pytest.mark.parametrize("warm", [0, 100])
@pytest.mark.parametrize("waits", WAITS)
def test_a_wait_on_record_keeps_its_length_when_the_clock_is_set_forward(
    waits: Workflow[[float], float], warm: int, step: Duration
) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker(warm=warm):
            run = await start(app, waits)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(step)
            return await run.result(timeout=100)

    assert LENGTH <= in_virtual_time(scene) < LENGTH + 3


@pytest.mark.parametrize("waits", WAITS)
def test_a_wait_on_record_keeps_its_length_for_a_worker_that_came_after_the_step(
    waits: Workflow[[float], float],
) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await start(app, waits)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(HOUR)
            await app.run(ends_at_once)  # so that the worker sees the step
        async with app.worker():
            return await run.result(timeout=100)

    assert LENGTH <= in_virtual_time(scene) < LENGTH + 3


def test_many_workers_that_see_one_step_add_it_once() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker(), app.worker(), app.worker(warm=0):
            run = await start(app, sleeps)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(HOUR)
            return await run.result(timeout=100)

    assert LENGTH <= in_virtual_time(scene) < LENGTH + 3


@pytest.mark.parametrize("warm", [0, 100])
def test_a_step_that_is_reset_adds_nothing_to_a_wait(warm: int) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker(warm=warm):
            run = await start(app, sleeps)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(DAY)
            await app.run(ends_at_once)
            await asyncio.sleep(1)
            clock.set_back(DAY)
            await reset_clock(app._store)
            await app.run(ends_at_once)
            return await run.result(timeout=100)

    assert LENGTH <= in_virtual_time(scene) < LENGTH + 3


@pytest.mark.parametrize("warm", [0, 100])
def test_a_wait_ends_when_it_was_first_due_if_the_time_is_said_to_have_passed(warm: int) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker(warm=warm):
            run = await start(app, sleeps)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(HOUR)
            await app.run(ends_at_once)
            await accept_steps(app._store)
            await app.run(ends_at_once)
            return await run.result(timeout=100)

    assert in_virtual_time(scene) < LENGTH / 2


def test_a_deadline_is_not_over_early_because_the_clock_is_set_forward() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        async with app.worker(warm=0):
            run = await app.start(listens.options(deadline=LENGTH / 2), begun)
            await asyncio.sleep(LENGTH / 4)
            clock.jump(HOUR)
            with pytest.raises(RunCancelled):
                await run.result(timeout=100)
        return loop.time() - begun

    assert LENGTH / 2 <= in_virtual_time(scene) < LENGTH / 2 + 3


@workflow
async def sleeps_until_a_time() -> float:
    begun = await real_seconds()
    await onward.sleep_until(onward.now() + timedelta(hours=1))
    return await real_seconds() - begun


def test_a_sleep_until_a_time_ends_at_that_time_though_the_clock_was_set() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker(warm=0):
            run = await app.start(sleeps_until_a_time)
            await asyncio.sleep(5)
            clock.jump(HOUR)
            return await run.result(timeout=100)

    assert in_virtual_time(scene) < LENGTH


@step
async def works() -> None:
    await asyncio.sleep(1)


@workflow
async def sleeps_after_work() -> float:
    await works()
    await onward.sleep(LENGTH)
    return await real_seconds()


@pytest.mark.parametrize("begins_late", [False, True], ids=["at once", "after a pause"])
def test_a_wait_that_is_being_written_when_the_clock_is_set_keeps_its_length(
    *, begins_late: bool
) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        parks: list[float] = []

        def park() -> None:
            parks.append(asyncio.get_running_loop().time())
            if len(parks) == 1 + begins_late:
                clock.jump(HOUR)

        with armed("park.before", park, hit=None):
            async with app.worker(warm=0):
                run = await app.start(sleeps_after_work)
                if begins_late:  # so a clock record says from when the sleep counts
                    await asyncio.sleep(0.5)
                    await app.pause(run.id)
                    await asyncio.sleep(60)
                    await app.resume(run.id)
                return await run.result() - parks[begins_late]

    assert in_virtual_time(scene) == pytest.approx(LENGTH, abs=0.1)
