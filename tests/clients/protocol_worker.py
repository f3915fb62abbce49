"""The test program of docs/protocol.md, in Python."""

import asyncio
import os
import time

import onward
from onward import App, Fatal, Retry, Signal, step, workflow

approved = Signal("approval")
never = Signal("never")


@step
async def add(a: int, b: int) -> int:
    return a + b


@step
async def fail(message: str) -> None:
    raise Fatal(message)


@step(retry=Retry(attempts=5, delay="10ms", jitter=0))
async def flaky(times: int) -> int:
    attempt = onward.current().attempt
    if attempt <= times:
        raise ValueError(f"attempt {attempt} fails")
    return attempt


@step
async def hang() -> None:
    await asyncio.sleep(60)


@step
async def show(value: int) -> int:
    onward.current().progress(value)
    return value


@step
async def block(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - it blocks the loop of its worker on purpose


@step(queue="elsewhere")
async def far(x: int) -> str:
    raise NotImplementedError  # another worker has it


async def total_of(numbers: list[int]) -> int:
    total = 0
    for number in numbers:
        total = await add(total, number)
    return total


@workflow(name="sum")
async def sum_up(numbers: list[int]) -> int:
    return await total_of(numbers)


@workflow
async def both() -> list[int]:
    return list(await asyncio.gather(add(1, 2), add(3, 4)))


@workflow
async def flake(times: int) -> int:
    return await flaky(times)


@workflow
async def broken(message: str) -> None:
    await fail(message)


@workflow
async def report(value: int) -> int:
    return await show(value)


@workflow
async def busy(seconds: float) -> None:
    await block(seconds)


@workflow
async def nap(seconds: float) -> int:
    await onward.sleep(seconds)
    return await add(1, 2)


@workflow
async def approval() -> object:
    return await approved.wait()


@workflow
async def patient(seconds: float) -> object:
    try:
        return await approved.wait(timeout=seconds)
    except TimeoutError:
        return "timed out"


@workflow
async def sum_then_approval(numbers: list[int]) -> object:
    await total_of(numbers)
    return await approved.wait()


@workflow
async def hang_or_approval() -> object:
    hanging = asyncio.ensure_future(hang())
    waiting = asyncio.ensure_future(approved.wait())
    await asyncio.wait([hanging, waiting], return_when=asyncio.FIRST_COMPLETED)
    hanging.cancel()
    return waiting.result()


@workflow
async def family(n: int) -> int:
    return await sum_up([n, n])


@workflow
async def remote(x: int) -> str:
    return await far(x)


@workflow
async def undo() -> None:
    try:
        await never.wait()
    except asyncio.CancelledError:
        await add(1, 1)
        raise


@workflow
async def undo_step() -> None:
    try:
        await hang()
    except asyncio.CancelledError:
        await add(1, 1)
        raise


app = App(os.environ.get("ONWARD_URL", ":memory:"))
