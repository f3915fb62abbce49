"""A step with a key that was given up may be asked for again: it is the same call."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import onward
from onward import Retry, Signal, Workflow, step, workflow
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import App

begun: Counter[str] = Counter()
free = asyncio.Event()
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world() -> None:
    global free
    begun.clear()
    free = asyncio.Event()


@step(retry=Retry(attempts=2, delay="1ms"))
async def weigh(what: str) -> str:
    begun[what] += 1
    if begun[what] == 1:
        await free.wait()
    return f"{what} {begun[what]}"


async def given_up(what: str = "gold") -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(weigh.options(key="k")(what), 0.05)


@workflow
async def at_once() -> str:
    await given_up()
    return await weigh.options(key="k")("gold")


@workflow
async def later() -> str:
    await given_up()
    await onward.sleep("1ms")
    return await weigh.options(key="k")("gold")


@workflow
async def after_a_wait() -> str:
    await given_up()
    await go.wait()
    return await weigh.options(key="k")("gold")


@workflow
async def twice() -> str:
    await given_up()
    again = [weigh.options(key="k")("gold") for _ in range(2)]
    return " and ".join(await asyncio.gather(*again))


@workflow
async def never() -> str:
    await given_up()
    return "never"


@pytest.mark.parametrize(
    ("shape", "result"),
    [(at_once, "gold 2"), (later, "gold 2"), (twice, "gold 2 and gold 2"), (never, "never")],
    ids=["at once", "later", "twice", "never"],
)
async def test_it_is_done_again(app: App, shape: Workflow[[], str], result: str) -> None:
    async with working(app, warm=0):
        assert await app.run(shape) == result


async def test_it_is_done_again_by_a_body_that_was_put_away_in_between(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(after_a_wait)
        await until_state(run, "waiting")
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "gold 2"


@workflow
async def replayed() -> str:
    weight = await at_once.fn()
    await go.wait()
    return str(weight)


async def test_a_replay_hands_the_outcome_to_the_one_who_still_waits(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(replayed)
        await until_state(run, "waiting")
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "gold 2"
    assert begun["gold"] == 2


@step(retry=Retry(attempts=2, delay="200ms"))
async def stumbles(what: str) -> str:
    begun[what] += 1
    if begun[what] == 1:
        raise ConnectionError("not yet")
    return f"{what} {begun[what]}"


@workflow
async def between_attempts() -> str:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stumbles.options(key="k")("gold"), 0.1)
    return await stumbles.options(key="k")("gold")


async def test_attempts_that_failed_before_count(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(between_attempts)
        assert await run.result(timeout="60s") == "gold 2"
        rows = [row for row in await run.history() if row.kind == "step"]
        assert sorted((row.attempt, row.state) for row in rows) == [(1, "failed"), (2, "succeeded")]


@step(queue="elsewhere")
async def send(what: str) -> str:
    begun[what] += 1
    await free.wait()
    return f"{what} {begun[what]}"


@workflow
async def routed() -> str:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(send.options(key="k")("gold"), 0.1)
    free.set()
    return await send.options(key="k")("gold")


async def test_a_step_on_another_queue_goes_on(app: App) -> None:
    async with working(app, queues=["default", "elsewhere"]):
        assert await app.run(routed) == "gold 1"
