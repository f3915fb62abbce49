"""Sleeps and timeouts of a body: of any length, durable, and in the time of the database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.core.instant import DAY, SECOND
from onward.errors import BadInput, RunFailed, TimedOut
from onward.telemetry import Metrics
from onward.testing.clock import Deadlock, VirtualClock, VirtualLoop
from tests.kit.virtual_time import in_virtual_time
from tests.kit.watching import check_database, until, until_state

T = TypeVar("T")
number = Signal("number", int)
YEAR = 365 * DAY


async def sleep_through(
    app: App, clock: VirtualClock, started: onward.Workflow[..., T], *args: Any
) -> T:
    """Run a workflow to its end; whenever it waits, let time pass until it is due."""
    async with app.worker(workflows=[started]):
        run = await app.start(started, *args)
        while (info := await run.info()).finished_at is None:
            if info.state == "waiting" and info.due is not None:
                due = int(info.due.timestamp() * SECOND)
                clock.advance(max(0, due - clock.wall() - 1000))
            await asyncio.sleep(0.1)
        return await run.result()


@workflow
async def sleeper(time: Any) -> timedelta:
    before = onward.now()
    await onward.sleep(time)
    return onward.now() - before


@workflow
async def plain_sleeper(seconds: float) -> timedelta:
    before = onward.now()
    await asyncio.sleep(seconds)
    return onward.now() - before


@workflow
async def until_time(days: int) -> timedelta:
    before = onward.now()
    await onward.sleep_until(before + timedelta(days=days))
    return onward.now() - before


@pytest.mark.parametrize(
    ("started", "given", "slept"),
    [
        (sleeper, "10d", timedelta(days=10)),
        (sleeper, "5200w", timedelta(weeks=5200)),
        (sleeper, 86400, timedelta(days=1)),
        (plain_sleeper, 3 * 365 * 86400.0, timedelta(days=3 * 365)),
        (until_time, 3650, timedelta(days=3650)),
    ],
)
def test_a_sleep_may_take_years(
    started: onward.Workflow[[Any], timedelta], given: Any, slept: timedelta
) -> None:
    took = in_virtual_time(lambda app, clock: sleep_through(app, clock, started, given))

    assert slept <= took < slept + timedelta(seconds=2)


@pytest.mark.parametrize(
    ("started", "given"),
    [(sleeper, 0), (sleeper, "0s"), (plain_sleeper, 0.0), (until_time, 0), (until_time, -7)],
)
async def test_a_sleep_of_no_time_leaves_no_record(
    memory: App, started: onward.Workflow[[Any], timedelta], given: Any
) -> None:
    async with memory, memory.worker():
        run = await memory.start(started, given)

        assert await run.result(timeout="60s") == timedelta(0)
        assert await run.history() == []


@pytest.mark.parametrize("seconds", [1e-6, 0.0005, 0.02])
async def test_a_short_sleep_takes_at_least_its_time(app: App, seconds: float) -> None:
    async with app, app.worker():
        ours, plain = await app.start(sleeper, seconds), await app.start(plain_sleeper, seconds)
        for run in (ours, plain):
            assert timedelta(seconds=seconds) <= await run.result(timeout="60s")
            [row] = await run.history()
            assert (row.kind, row.state) == ("timer", "succeeded")


@pytest.mark.parametrize("bad", ["soon", -1, float("inf"), float("nan"), "2000000d", True])
async def test_a_sleep_that_cannot_be_meant_fails_at_the_line(bad: Any) -> None:
    with pytest.raises(BadInput):
        await onward.sleep(bad)


@workflow
async def asleep_for_ever(seconds: float, *, limit: bool) -> str:
    try:
        if limit:
            async with asyncio.timeout(seconds):
                await number.wait()
        await asyncio.sleep(seconds)
    except BadInput:
        return "refused"
    return "not reached"


@pytest.mark.parametrize("seconds", [1e11, 1e13, 1e300])
@pytest.mark.parametrize("limit", [False, True])
async def test_a_sleep_beyond_all_dates_is_refused_at_the_line(
    memory: App, seconds: float, limit: bool
) -> None:
    async with memory, memory.worker():
        assert await memory.run(asleep_for_ever, seconds, limit=limit) == "refused"


async def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(BadInput, match="time zone"):
        await onward.sleep_until(datetime(2030, 1, 1))  # noqa: DTZ001 - that is the test
    await onward.sleep_until(datetime(2020, 1, 1, tzinfo=UTC))


@workflow
async def twice(time: str) -> timedelta:
    before = onward.now()
    await asyncio.gather(onward.sleep(time), number.wait())
    return onward.now() - before


async def test_a_sleep_goes_on_from_where_it_began_when_its_worker_is_gone(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(twice, "150ms")
            await until_state(run, "waiting")
        rows = {row.kind: row for row in await run.history()}
        begun = rows["timer"]
        assert begun.due is not None
        assert begun.due - begun.opened_at <= timedelta(milliseconds=150)
        await run.signal(number, 1)
        async with app.worker():
            took = await run.result(timeout="60s")
        assert timedelta(milliseconds=150) <= took
        [ended] = [row for row in await run.history() if row.kind == "timer"]
        assert ended.due == begun.due
        await check_database(app)


def test_a_run_that_slept_while_no_worker_ran_is_awake_at_once() -> None:
    async def play(app: App, clock: VirtualClock) -> int:
        run = await app.start(sleeper, "1d")
        async with app.worker(workflows=[sleeper]):
            await until_state(run, "waiting")
        clock.advance(YEAR)
        woken = clock.wall()
        async with app.worker(workflows=[sleeper]):
            await run.result()
        return clock.wall() - woken

    assert in_virtual_time(play) < 2 * SECOND


class Looks(Metrics):
    """How often workers looked for something to do."""

    count = 0

    def claim_took(self, **_about: object) -> None:
        self.count += 1


@workflow
async def hibernate(months: int) -> timedelta:
    before = onward.now()
    await onward.sleep("30d")
    if months > 1:
        async with asyncio.timeout(5 * 365 * 24 * 3600):
            await asyncio.gather(onward.sleep("1d"), hibernate(months - 1))
    return onward.now() - before


@pytest.mark.parametrize("workers", [1, 2])
def test_months_of_sleep_in_virtual_time_cost_a_few_looks(workers: int) -> None:
    clock, looks = VirtualClock(), Looks()

    async def play() -> timedelta:
        app = App(":memory:", clock=clock, spawn=None, metrics=looks)
        async with app, AsyncExitStack() as crew:
            for _ in range(workers):
                await crew.enter_async_context(app.worker(workflows=[hibernate]))
            slept = await app.run(hibernate, 12)
            await check_database(app)
        return slept

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        slept = runner.run(play())

    assert timedelta(days=360) <= slept < timedelta(days=361)
    assert looks.count < 2000  # there are 31 million seconds in a year


@workflow
async def listen() -> int:
    return await number.wait()


def test_in_virtual_time_a_wait_that_nothing_can_end_raises() -> None:
    async def play(app: App, _: VirtualClock) -> None:
        async with app.worker(workflows=[listen]):
            await app.run(listen)

    with pytest.raises(Deadlock, match="no task can ever continue"):
        in_virtual_time(play)


# --- limits in a body -----------------------------------------------------------------------------


class Seen:
    """What happened outside; a test resets it."""

    told: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Seen.told.clear()


@workflow
async def limited(seconds: float) -> str:
    try:
        async with asyncio.timeout(seconds):
            await number.wait()
    except TimeoutError as error:
        Seen.told.append(type(error).__qualname__)
        return "too late"
    return "in time"


@workflow
async def limited_by_wait_for(seconds: float) -> str:
    try:
        await asyncio.wait_for(number.wait(), seconds)
    except TimeoutError:
        return "too late"
    return "in time"


@pytest.mark.parametrize("started", [limited, limited_by_wait_for])
async def test_a_timeout_of_asyncio_is_durable(
    app: App, started: onward.Workflow[[float], str]
) -> None:
    async with app:
        async with app.worker():
            late = await app.start(started, 0.15)
            soon = await app.start(started, 3600)
            await until_state(late, "waiting")
            await until_state(soon, "waiting")
        await soon.signal(number, 1)
        async with app.worker():
            assert await late.result(timeout="60s") == "too late"
            assert await soon.result(timeout="60s") == "in time"
        await check_database(app)


@workflow
async def late_but_there() -> int:
    return await number.wait(timeout="1h")


def test_a_signal_that_is_there_wins_over_a_time_that_has_passed() -> None:
    async def play(app: App, clock: VirtualClock) -> int:
        run = await app.start(late_but_there)
        async with app.worker(workflows=[late_but_there]):
            await until_state(run, "waiting")
        clock.advance(DAY)
        await run.signal(number, 7)
        async with app.worker(workflows=[late_but_there]):
            return await run.result()

    assert in_virtual_time(play) == 7


def test_a_wait_for_a_signal_may_take_years() -> None:
    async def play(app: App, clock: VirtualClock) -> str:
        begun = clock.wall()
        told = await sleep_through(app, clock, patient)
        assert clock.wall() - begun >= 3 * YEAR
        return told

    assert in_virtual_time(play) == "TimedOut"


@workflow
async def patient() -> str:
    try:
        await number.wait(timeout=timedelta(days=3 * 365))
    except TimedOut as late:
        return type(late).__name__
    return "not reached"


# --- retries in virtual time ----------------------------------------------------------------------


@step(retry=Retry(attempts=None, delay="1h", factor=2, max_delay="1d", jitter=0, within="7d"))
async def keeps_failing() -> None:
    Seen.told.append("tried")
    raise LookupError("still")


@workflow
async def goes_on_trying() -> None:
    await keeps_failing()


def test_a_step_is_tried_for_days_and_given_up_in_time() -> None:
    async def play(app: App, clock: VirtualClock) -> int:
        begun = clock.wall()
        with pytest.raises(RunFailed, match="still"):
            await sleep_through(app, clock, goes_on_trying)
        return clock.wall() - begun

    took = in_virtual_time(play)
    # After 1, 3, 7, 15 and 31 hours, and then every day.
    assert len(Seen.told) == 6 + 5
    assert 6 * DAY < took < 7 * DAY


def test_the_time_for_all_attempts_counts_while_no_worker_runs() -> None:
    async def play(app: App, clock: VirtualClock) -> int:
        run = await app.start(goes_on_trying)
        async with app.worker(workflows=[goes_on_trying]):
            await until(lambda: bool(Seen.told), 60)
            await until_state(run, "waiting")
        clock.advance(30 * DAY)
        async with app.worker(workflows=[goes_on_trying]):
            with pytest.raises(RunFailed, match="step 'keeps_failing' took longer than 7d"):
                await run.result()
        return len(Seen.told)

    assert in_virtual_time(play) == 1
