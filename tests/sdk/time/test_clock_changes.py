"""A clock that is set while a worker has a run in memory: its waits last as long as they should."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, NotApplied, Retry, Signal, effect, step, workflow
from onward.core.instant import DAY, HOUR
from onward.errors import RunCancelled
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward import Workflow
    from onward.core.instant import Duration
    from onward.testing.clock import VirtualClock

WORK = 30
"""How many seconds the step takes that keeps the run in memory."""

LIMIT = 10

go = Signal("go", str)


@step
async def work(seconds: float = WORK) -> None:
    await asyncio.sleep(seconds)


async def _seconds_slept() -> float:
    await onward.sleep(LIMIT)
    return await real_seconds()


async def _seconds_until_the_limit() -> float:
    try:
        async with asyncio.timeout(LIMIT):
            await work(1000)
    except TimeoutError:
        return await real_seconds()
    return -1


async def _seconds_listened() -> float:
    try:
        await go.wait(timeout=LIMIT)
    except TimeoutError:
        return await real_seconds()
    return -1


@step
async def real_seconds() -> float:
    """Return the time of a clock that is never set: that of the loop."""
    return asyncio.get_running_loop().time()


async def _beside_a_step(waits: Callable[[], Coroutine[Any, Any, float]]) -> float:
    begun = await real_seconds()
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        ended = group.create_task(waits())
    return ended.result() - begun


@workflow
async def ends_at_once() -> None:
    """Do nothing."""


async def put_forward(app: App, clock: VirtualClock, step: Duration) -> None:
    """Set the clock, and let the worker hear of it: it learns the time from answers."""
    clock.jump(step)
    await app.run(ends_at_once)


@workflow
async def sleeps() -> float:
    return await _beside_a_step(_seconds_slept)


@workflow
async def is_limited() -> float:
    return await _beside_a_step(_seconds_until_the_limit)


@workflow
async def listens() -> float:
    return await _beside_a_step(_seconds_listened)


@pytest.mark.parametrize("waits", [sleeps, is_limited, listens])
@pytest.mark.parametrize("step", [HOUR, DAY])
def test_a_wait_is_not_over_early_because_the_clock_is_put_forward(
    waits: Workflow[[], float], step: int
) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await app.start(waits)
            await asyncio.sleep(2)
            await put_forward(app, clock, step)
            return await run.result(timeout=100)

    assert LIMIT <= in_virtual_time(scene) < LIMIT + 2


@pytest.mark.parametrize("waits", [sleeps, is_limited, listens])
def test_a_clock_that_is_put_forward_twice_ends_no_wait_early(waits: Workflow[[], float]) -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await app.start(waits)
            for _ in range(2):
                await asyncio.sleep(2)
                await put_forward(app, clock, HOUR)
            return await run.result(timeout=100)

    assert LIMIT <= in_virtual_time(scene) < LIMIT + 2


@workflow
async def works_and_sleeps() -> float:
    begun = await real_seconds()
    await work(1)
    await onward.sleep(LIMIT)
    return await real_seconds() - begun


@workflow
async def sleeps_until_a_time() -> float:
    async def ended() -> float:
        await onward.sleep_until(onward.now() + timedelta(hours=1))
        return await real_seconds()

    return await _beside_a_step(ended)


def test_a_sleep_until_a_time_is_over_when_the_clock_is_put_there() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await app.start(sleeps_until_a_time)
            await asyncio.sleep(2)
            await put_forward(app, clock, 2 * HOUR)
            return await run.result(timeout=100)

    assert in_virtual_time(scene) < WORK


@workflow
async def cleans_up() -> None:
    try:
        await work(1000)
    finally:
        await work()
        await real_seconds()


@workflow
async def cleans_up_slowly() -> None:
    try:
        await work(1000)
    finally:
        await onward.sleep(LIMIT)
        await real_seconds()


@pytest.mark.parametrize("body", [cleans_up, cleans_up_slowly])
def test_a_cleanup_has_its_time_though_the_clock_is_put_forward(
    body: Workflow[[], None],
) -> None:
    async def scene(app: App, clock: VirtualClock) -> str:
        async with app.worker():
            run = await app.start(body)
            await asyncio.sleep(2)
            await run.cancel()
            await asyncio.sleep(2)
            await put_forward(app, clock, DAY)
            with pytest.raises(RunCancelled):
                await run.result(timeout=100)
            return (await run.history())[-1].name

    assert in_virtual_time(scene) == real_seconds.name


@workflow
async def cleans_up_for_too_long() -> None:
    try:
        await work(1000)
    finally:
        await work(1000)


def test_a_clock_put_forward_as_a_cancel_is_recorded_gives_its_cleanup_no_more_time() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await app.start(cleans_up_for_too_long)
            await asyncio.sleep(2)
            clock.jump(DAY)
            await run.cancel()
            with pytest.raises(RunCancelled):
                await run.result(timeout=500)
            return asyncio.get_running_loop().time()

    assert 60 <= in_virtual_time(scene) < 70  # the minute of grace


def test_a_sleep_ends_though_the_clock_is_set_back() -> None:
    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            run = await app.start(works_and_sleeps)
            await asyncio.sleep(4)
            clock.set_back(HOUR)
            return await run.result(timeout=100)

    assert LIMIT <= in_virtual_time(scene) < 3 * LIMIT


@step(retry=Retry(attempts=10, delay=1, factor=1, jitter=0, within="20s"))
async def fails_for_a_while() -> int:
    number = onward.current().attempt
    if number < 8:
        raise ConnectionError
    return number


@workflow
async def tries() -> int:
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        tried = group.create_task(_try())
    return tried.result()


async def _try() -> int:
    return await fails_for_a_while()


def test_the_time_for_all_attempts_of_a_step_is_not_over_because_the_clock_is_put_forward() -> None:
    async def scene(app: App, clock: VirtualClock) -> int:
        async with app.worker():
            run = await app.start(tries)
            await asyncio.sleep(2.5)
            await put_forward(app, clock, HOUR)
            return await run.result(timeout=100)

    assert in_virtual_time(scene) > 1


class Bank:
    """A receiver that gets each transfer late; reset by the test."""

    sent = 0
    arrived = 0


async def find_transfer(*, key: str) -> onward.Applied[int] | NotApplied:
    return onward.Applied(1) if Bank.arrived else NotApplied("it is not there")


@effect(timeout="1s", settle="30s", reconcile=find_transfer)
async def transfer() -> int:
    Bank.sent += 1
    asyncio.get_running_loop().call_later(12, _arrive)
    await asyncio.sleep(100)
    return 1


def _arrive() -> None:
    Bank.arrived += 1


@workflow
async def transfers() -> int:
    return await transfer()


def test_a_clock_that_is_put_forward_does_not_shorten_the_time_in_which_a_send_may_settle() -> None:
    Bank.sent = Bank.arrived = 0

    async def scene(app: App, clock: VirtualClock) -> None:
        async with app.worker():
            run = await app.start(transfers)
            await asyncio.sleep(3)
            await put_forward(app, clock, HOUR)
            await run.result(timeout=200)
            await asyncio.sleep(60)

    in_virtual_time(scene)

    assert (Bank.sent, Bank.arrived) == (1, 1)
