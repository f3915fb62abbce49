"""Runs that come back late: what they wait for counts from then, unless its time is on record."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.errors import BadInput, RunCancelled, RunFailed
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Run
    from onward.sdk.workflow import Workflow

LIMIT = 3
AWAY = 60

go = Signal("go", str)


@step
async def work(seconds: float = 1) -> int:
    await asyncio.sleep(seconds)
    return 1


@step(retry=Retry(attempts=1))
async def shaky() -> int:
    if not Seen.is_mended:
        raise ConnectionError("down")
    return 1


class Seen:
    """What a test has changed; reset before each."""

    is_mended = False


@pytest.fixture(autouse=True)
def _nothing_is_mended() -> None:
    Seen.is_mended = False


@workflow
async def sleeps() -> str:
    await work()
    await onward.sleep(LIMIT)
    return "slept"


@workflow
async def times_out() -> str:
    await work()
    try:
        async with asyncio.timeout(LIMIT):
            await work()
    except TimeoutError:
        return "too late"
    return "in time"


@workflow
async def waits_for() -> str:
    await work()
    try:
        await asyncio.wait_for(work(0.5), LIMIT)
    except TimeoutError:
        return "too late"
    return "in time"


@workflow
async def listens() -> str:
    await work()
    try:
        return await go.wait(timeout=LIMIT)
    except TimeoutError:
        return "nothing came"


@workflow
async def is_limited_as_a_whole() -> str:
    try:
        async with asyncio.timeout(LIMIT):
            await work()
            await work()
    except TimeoutError:
        return "too late"
    return "in time"


async def paused(app: App, limited: Workflow[[], str]) -> float:
    """Pause a run within its first step for a minute; return how long it takes after that."""
    async with app.worker():
        run = await app.start(limited.options(id="r"))
        await asyncio.sleep(0.5)
        await app.pause("r")
        await asyncio.sleep(AWAY)
        await app.resume("r")
        return await ends(run)


async def deployed(app: App, limited: Workflow[[], str]) -> float:
    """Stop the worker within the first step, and start another a minute later."""
    async with app.worker():
        run = await app.start(limited.options(id="r"))
        await asyncio.sleep(0.5)
    await asyncio.sleep(AWAY)
    async with app.worker():
        return await ends(run)


async def adopted(app: App, limited: Workflow[[], str]) -> float:
    """Let the worker leave without finishing a step, and another take over a minute later."""
    run = await app.start(limited.options(id="r"))
    await work_for(app, 0.5)
    await asyncio.sleep(AWAY)
    async with app.worker():
        return await ends(run)


async def work_for(app: App, seconds: float) -> None:
    """Work for a while, then give all runs back at once."""

    async def works() -> None:
        async with app.worker(warm=0):
            await asyncio.sleep(1000 * AWAY)

    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(works(), seconds)


async def ends(run: Run[str]) -> float:
    """Wait for the end of a run and return how long that took."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    Ended.result = await run.result(timeout="10m", raise_paused=True)
    return loop.time() - begun


class Ended:
    """The result of the run of a test."""

    result = ""


def play(scene: Callable[[App], Awaitable[Any]]) -> Any:
    """Play a scene in virtual time; afterwards everything in the database must fit together."""
    return in_virtual_time(lambda app, _: scene(app))


SCENES = [paused, deployed, adopted]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("limited", [times_out, waits_for, is_limited_as_a_whole])
def test_a_limit_counts_from_when_the_run_is_back(scene: Any, limited: Any) -> None:
    play(lambda app: scene(app, limited))

    assert Ended.result == "in time"


@pytest.mark.parametrize("scene", [paused, adopted])
def test_a_sleep_counts_from_when_the_run_is_back(scene: Any) -> None:
    assert LIMIT <= play(lambda app: scene(app, sleeps)) < LIMIT + 2


@pytest.mark.parametrize("scene", [paused, adopted])
def test_a_wait_for_a_signal_counts_from_when_the_run_is_back(scene: Any) -> None:
    took = play(lambda app: scene(app, listens))

    assert Ended.result == "nothing came"
    assert LIMIT <= took < LIMIT + 2


@pytest.mark.parametrize("limited", [sleeps, listens])
def test_a_wait_that_is_on_record_keeps_its_due_time(limited: Any) -> None:
    """The worker lets the step finish before it leaves, so the run waits on record meanwhile."""
    assert play(lambda app: deployed(app, limited)) < 1


@workflow
async def two_branches() -> list[float]:
    """Wait in one branch while a step of the other is under way."""

    async def first() -> float:
        await work(1)
        begun = asyncio.get_running_loop().time()
        await onward.sleep(LIMIT)
        return asyncio.get_running_loop().time() - begun

    return [await each for each in [asyncio.create_task(first()), asyncio.create_task(work(30))]]


def test_a_sleep_that_a_pause_held_up_in_a_live_run_counts_from_the_resume() -> None:
    async def scene(app: App) -> list[Any]:
        async with app.worker():
            run = await app.start(two_branches.options(id="r"))
            await asyncio.sleep(0.5)
            await app.pause("r")
            await asyncio.sleep(20)
            await app.resume("r")
            await run.result(timeout="10m")
            return await run.history()

    history = play(scene)

    assert [row.kind for row in history] == ["step", "clock", "timer", "step"]
    assert history[2].closed_at - history[1].closed_at >= timedelta(seconds=LIMIT)


@workflow
async def limited_beside_a_step() -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(work(30))
        limited = group.create_task(_limited())
    return limited.result()


async def _limited() -> str:
    try:
        async with asyncio.timeout(LIMIT):
            await work()
            await work()
    except TimeoutError:
        return "too late"
    return "in time"


def test_a_limit_does_not_count_while_a_live_run_is_paused() -> None:
    async def scene(app: App) -> str:
        async with app.worker():
            run = await app.start(limited_beside_a_step.options(id="r"))
            await asyncio.sleep(0.5)
            await app.pause("r")
            await asyncio.sleep(20)
            await app.resume("r")
            return await run.result(timeout="10m")

    assert play(scene) == "in time"


@workflow
async def cleans_up() -> str:
    try:
        await onward.sleep(1000)
    finally:
        await work(5)
        await work(6)
    return "not reached"


@pytest.mark.parametrize("warm", [0, 100])
def test_a_cleanup_has_its_time_however_long_its_run_has_no_worker(warm: int) -> None:
    async def scene(app: App) -> list[str]:
        async with app.worker(warm=warm):
            run = await app.start(cleans_up)
            await asyncio.sleep(1)
        await run.cancel()
        for _ in range(2):
            await work_for(app, 3)
            await asyncio.sleep(2 * AWAY)
        async with app.worker():
            with pytest.raises(RunCancelled):
                await run.result(timeout="10m")
        return [row.kind for row in await run.history() if row.state == "succeeded"]

    assert play(scene)[-2:] == ["step", "step"]


def test_a_cleanup_that_takes_too_long_is_ended_however_often_its_run_changes_hands() -> None:
    async def scene(app: App) -> None:
        async with app.worker():
            run = await app.start(sleeps_on_in_cleanup)
            await asyncio.sleep(1)
        await run.cancel()
        for _ in range(20):
            await work_for(app, 10)
            await asyncio.sleep(AWAY)
            if (await run.info()).finished_at is not None:
                return
        raise AssertionError("it is still there")

    play(scene)


@workflow
async def sleeps_on_in_cleanup() -> None:
    try:
        await onward.sleep(1000)
    finally:
        while True:
            await onward.sleep(4)


@workflow
async def until_a_time() -> str:
    await work()
    await onward.sleep_until(onward.now() + timedelta(seconds=LIMIT))
    return "there"


@pytest.mark.parametrize("scene", [paused, deployed])
def test_a_sleep_until_a_time_ends_at_that_time_however_late_the_run_is(scene: Any) -> None:
    assert play(lambda app: scene(app, until_a_time)) < 1


@workflow
async def limited_and_shaky() -> str:
    await work()
    try:
        async with asyncio.timeout(LIMIT):
            await shaky()
    except TimeoutError:
        return "too late"
    return "in time"


def test_a_limit_in_a_run_that_is_retried_days_later_counts_from_then() -> None:
    async def scene(app: App) -> None:
        async with app.worker():
            run = await app.start(limited_and_shaky.options(id="r"))
            with pytest.raises(RunFailed):
                await run.result(timeout="1m")
            await asyncio.sleep(3 * 24 * 3600)
            Seen.is_mended = True
            await ends(await app.retry("r"))

    play(scene)

    assert Ended.result == "in time"


@workflow
async def starts_later() -> str:
    await work()
    child = await onward.start(sleeps.options(id="child", delay="1m"))
    return child.id


def test_the_delay_of_a_child_counts_from_when_it_is_started() -> None:
    async def scene(app: App) -> None:
        await paused(app, starts_later)
        info = await (await app.get("child")).info()
        assert info.due == info.created_at + timedelta(minutes=1)
        assert info.created_at > (await (await app.get("r")).info()).created_at + timedelta(
            seconds=AWAY
        )

    play(scene)


# --- clock records beside the rest ----------------------------------------------------------------


@workflow(strict=True)
async def keeps_strictly() -> str:
    for _ in range(5):
        async with asyncio.timeout(20):
            await work(3)
        await onward.sleep(LIMIT)
    return str(onward.now())


@workflow
async def counts_on() -> str:
    found = []
    for n in range(5):
        async with asyncio.timeout(20):
            found.append(await named(f"{n} {onward.now()} {onward.uuid()}"))
            await work(LIMIT)
        if onward.patched(f"change {n}"):
            await onward.sleep(LIMIT)
    return " ".join(found)


@step(name="clock")
async def named(text: str) -> str:
    return text


@pytest.mark.parametrize("body", [keeps_strictly, counts_on])
def test_a_run_that_is_late_again_and_again_is_replayed_without_a_difference(body: Any) -> None:
    async def scene(app: App) -> list[str]:
        run = await app.start(body.options(id="r"))
        for n in range(30):
            await work_for(app, 0.7 + n / 6)
            await asyncio.sleep(AWAY)
        async with app.worker(warm=0):
            await ends(run)
        return [row.kind for row in await run.history()]

    kinds = play(scene)

    assert kinds.count("clock") > 1


def test_a_retry_and_a_fork_keep_the_clock_records_of_what_they_keep() -> None:
    async def scene(app: App) -> None:
        await paused(app, counts_on)
        run = await app.get("r")
        before = await run.history()
        async with app.worker():
            fork = await app.fork("r", "clock", new_id="whole")
            await ends(fork)
            assert "clock" not in [row.kind for row in (await fork.history())[:1]]
            late = await app.fork("r", before[-2].identity, new_id="late")
            await ends(late)
            clock = next(row.identity for row in before if row.kind == "clock")
            with pytest.raises(BadInput, match="is a clock record, not a call"):
                await app.fork("r", clock, new_id="nowhere")
        kept = [row.identity for row in before[:-2]]
        assert [row.identity for row in (await late.history())[: len(kept)]] == kept
        assert any(identity.startswith("=clock.") for identity in kept)

    play(scene)


def test_a_run_in_time_has_no_clock_record() -> None:
    async def scene(app: App) -> list[str]:
        async with app.worker():
            run = await app.start(counts_on)
            await run.result()
            return [row.kind for row in await run.history()]

    assert "clock" not in play(scene)
