"""The arguments and durations of steps, as history shows them to people."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from onward import App, Retry, Signal, step, workflow
from tests.kit.virtual_time import in_virtual_time
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    import pytest

    from onward.testing.clock import VirtualClock

go = Signal("go")
failing: list[str] = []


@step(retry=Retry(attempts=2, delay="3s", jitter=0))
async def price(sku: str, many: int = 1) -> int:
    await asyncio.sleep(2 * many)
    if failing:
        raise ValueError(failing.pop())
    return many


@step(record_args=False)
async def sign_in(password: str) -> bool:
    return bool(password)


@step
async def store(document: str) -> int:
    return len(document)


@workflow
async def basket() -> int:
    await sign_in("hunter2")
    return await price("cup", many=2)


def test_history_has_the_arguments_of_steps_and_how_long_each_attempt_took() -> None:
    failing[:] = ["no price today"]

    async def scene(app: App, _: VirtualClock) -> None:
        async with working(app):
            run = await app.start(basket)
            assert await run.result(timeout="1m") == 2
            signed, priced, failed = await run.history()

        assert (signed.name, signed.arguments, signed.took) == ("sign_in", None, timedelta(0))
        assert (priced.attempt, failed.attempt) == (2, 1)
        assert priced.arguments == failed.arguments == {"sku": "cup", "many": 2}
        assert list(priced.arguments) == ["sku", "many"]  # as in the signature
        assert priced.took == failed.took == timedelta(seconds=4)
        assert priced.opened_at - failed.opened_at == timedelta(seconds=4 + 3)

    in_virtual_time(scene)


@workflow
async def archive(size: int) -> int:
    return await store("x" * size)


async def test_long_arguments_are_not_stored(app: App) -> None:
    async with working(app):
        short, long = [await app.start(archive, size) for size in (4000, 5000)]
        await asyncio.gather(short.result(timeout="60s"), long.result(timeout="10s"))
        [[kept], [left]] = await short.history(), await long.history()

    assert (kept.arguments, left.arguments) == ({"document": "x" * 4000}, None)


@workflow(name="shop")
async def sells_cups() -> int:
    await price("cup", many=0)
    await go.wait()
    return 1


@workflow(name="shop")
async def sells_mugs() -> int:
    await price("mug", many=0)
    await go.wait()
    return 1


async def test_the_diff_of_a_parked_run_has_both_arguments_and_its_log_has_none(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with app:
        run = await app.start(sells_cups)
        async with app.worker(workflows=[sells_cups]):
            await until_state(run, "waiting")
        async with app.worker(workflows=[sells_mugs]):
            await run.signal(go)
            await until_state(run, "paused")
        error = (await run.info()).error

    assert error is not None
    assert '- recorded arguments: {"sku":"cup","many":0}' in error
    assert '+ arguments now:      {"sku":"mug","many":0}' in error
    assert "run.paused" in caplog.text
    assert '"sku"' not in caplog.text
