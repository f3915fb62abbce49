"""Runs whose waits began while the store's time was ahead, after an operator has reset it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, effect, step, workflow
from onward.core.instant import DAY
from onward.engine.clock import reset_clock, retime
from onward.errors import RunFailed
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Run, Workflow
    from onward.testing.clock import VirtualClock

WORK = 20
"""How many seconds the step takes that keeps a run in memory."""

LIMIT = 10

go = Signal("go", str)
ended: list[float] = []
tries: list[float] = []


@pytest.fixture(autouse=True)
def _nothing_happened() -> None:
    ended.clear()
    tries.clear()


def real_seconds() -> float:
    return asyncio.get_running_loop().time()


@step(retry=Retry(attempts=1))
async def work(seconds: float = WORK) -> None:
    await asyncio.sleep(seconds)


@step
async def note_the_end() -> None:
    ended.append(real_seconds())


@step(retry=Retry(attempts=2, delay=LIMIT, factor=1, jitter=0))
async def fails_once() -> None:
    tries.append(real_seconds())
    if len(tries) == 1:
        raise ValueError("not yet")


@effect(rate="1/s")
async def ping() -> None:
    """Do something at a limited rate."""


@workflow
async def ends_at_once() -> None:
    """Do nothing; the worker learns the time from answers."""


@workflow
async def pings() -> None:
    await ping()
    await note_the_end()


@workflow
async def sleeps() -> None:
    await onward.sleep(LIMIT)
    await note_the_end()


@workflow
async def sleeps_and_listens() -> None:
    listening = asyncio.create_task(_listens())
    await onward.sleep(LIMIT)
    listening.cancel()
    await note_the_end()


async def _listens() -> None:
    while True:
        await go.wait()


async def _sleeps(seconds: float) -> None:
    await onward.sleep(seconds)
    await note_the_end()


@workflow
async def sleeps_beside_a_step() -> None:
    await asyncio.gather(work(), _sleeps(LIMIT))


@workflow
async def sleeps_long_beside_a_step() -> None:
    await asyncio.gather(work(), _sleeps(2 * WORK))


@workflow
async def sleeps_after_a_step() -> None:
    await work()
    await _sleeps(LIMIT)


@workflow
async def sleeps_beside_a_sleep() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_sleeps(2 * WORK))
        group.create_task(_works_and_sleeps())


async def _works_and_sleeps() -> None:
    await work()
    await _sleeps(LIMIT)


@workflow
async def tries_again_beside_a_step() -> None:
    await asyncio.gather(work(), fails_once())
    await note_the_end()


@workflow
async def is_limited() -> str:
    try:
        async with asyncio.timeout(LIMIT):
            await fails_at_first()
    except TimeoutError:
        return "over"
    return "?"


@step(retry=Retry(attempts=1))
async def fails_at_first() -> None:
    tries.append(real_seconds())
    if len(tries) == 1:
        raise ValueError("not yet")
    await asyncio.sleep(DAY)


async def is_over(app: App, run: Run[Any]) -> float:
    """Wait for the end of a run while the worker hears the time every second."""
    while await run.state() != "succeeded" and real_seconds() < 1000:
        await app.run(ends_at_once)
        await asyncio.sleep(1)
    return ended[-1] if ended else real_seconds()


def seconds_until_the_end(
    body: Workflow[[], None], then: Callable[[App, Run[Any]], Awaitable[object]]
) -> float:
    """Return when a run ends that begins while the clock is ahead, which is reset after 2 s."""

    async def scene(app: App, clock: VirtualClock) -> float:
        async with app.worker():
            clock.jump(DAY)
            run = await app.start(body.options(id="r"))
            await asyncio.sleep(2)
            clock.set_back(DAY)
            await reset_clock(app._store)
            await app.run(ends_at_once)
            await then(app, run)
            return await is_over(app, run)

    return in_virtual_time(scene)


async def nothing(_app: App, _run: Run[Any]) -> None:
    """Wait for the run as it is."""


async def retimed(app: App, _run: Run[Any]) -> None:
    """Reset the clock as the command does."""
    assert await retime(app._store) == ["r"]
    assert await retime(app._store) == []


async def touched_and_retimed(app: App, run: Run[Any]) -> None:
    await run.signal(go, "x")
    await asyncio.sleep(1)
    await retimed(app, run)


async def retimed_when_it_waits(app: App, run: Run[Any]) -> None:
    await asyncio.sleep(WORK)
    await retimed(app, run)


@pytest.mark.parametrize(
    ("body", "end"),
    [
        (sleeps_beside_a_step, LIMIT),
        (sleeps_long_beside_a_step, 2 * WORK),
        (sleeps_after_a_step, WORK + LIMIT),
    ],
)
def test_waits_in_memory_keep_their_length_when_the_clock_is_reset(
    body: Workflow[[], None], end: int
) -> None:
    assert end <= seconds_until_the_end(body, nothing) < end + 3


def test_a_wait_in_memory_is_not_set_back_twice() -> None:
    seconds_until_the_end(sleeps_beside_a_sleep, nothing)

    assert [round(at) // 5 * 5 for at in ended] == [WORK + LIMIT, 2 * WORK]


def test_waits_on_record_count_from_the_command_that_restarts_them() -> None:
    assert 2 + LIMIT <= seconds_until_the_end(sleeps, retimed) < 5 + LIMIT


def test_a_run_that_was_sent_a_signal_since_is_restarted_as_well() -> None:
    end = seconds_until_the_end(sleeps_and_listens, touched_and_retimed)

    assert 3 + LIMIT <= end < 6 + LIMIT


def test_a_retry_that_was_due_a_day_ahead_is_restarted_when_its_run_waits() -> None:
    end = seconds_until_the_end(tries_again_beside_a_step, retimed_when_it_waits)

    assert WORK < end < 5 + WORK + LIMIT


def test_a_limited_rate_goes_on_after_the_clock_was_reset() -> None:
    async def start_another(app: App, _run: Run[Any]) -> None:
        ended.clear()
        await app.run(pings)

    assert seconds_until_the_end(pings, start_another) < 5


def test_a_limit_in_a_retry_of_a_run_that_failed_while_the_clock_was_ahead_has_its_length() -> None:
    async def scene(app: App, clock: VirtualClock) -> tuple[str, float]:
        async with app.worker():
            clock.jump(DAY)
            run = await app.start(is_limited.options(id="r"))
            with pytest.raises(RunFailed):
                await run.result(timeout=10)
            clock.set_back(DAY)
            await reset_clock(app._store)
            await app.run(ends_at_once)
            begun = real_seconds()
            again = await app.retry("r")
            return await again.result(timeout=1000), real_seconds() - begun

    result, seconds = in_virtual_time(scene)
    assert result == "over"
    assert LIMIT <= seconds < LIMIT + 2
