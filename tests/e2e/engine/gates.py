"""Workflows with steps that a test holds up, or that take their worker down."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from onward import Applied, NotApplied, Retry, effect, effect_key, step, workflow
from tests.e2e.engine.outside import VARIABLE, note
from tests.e2e.engine.shapes import (
    branch,
    double,
    double_at_the_third_attempt,
    double_in_a_thread,
    go,
)


def gate(name: str) -> Path:
    """Return the file that opens a gate by being there."""
    return Path(f"{os.environ[VARIABLE]}.{name}")


@step
async def pass_gate(name: str) -> str:
    note()
    opened = gate(name), gate(f"{name}.{os.getpid()}")  # for all, or for this process alone
    while not any(file.exists() for file in opened):  # noqa: ASYNC110 - another opens it
        await asyncio.sleep(0.01)
    return name


@step
async def abort() -> None:
    note()
    os.abort()


@step
async def abort_at_first(n: int) -> int:
    mark = gate(f"tried-{n}")
    note()
    if not mark.exists():
        mark.touch()
        os.abort()
    return n


@step
async def take_a_while(n: int) -> int:
    note()
    await asyncio.sleep(0.05)
    return n


@workflow
async def gated(name: str) -> list[object]:
    return [await double(1), await pass_gate(name), await double(2)]


@workflow
async def everything(name: str) -> list[object]:
    """Pass every point of the engine that a run can pass."""
    pair = await asyncio.gather(double_in_a_thread(1), double_at_the_third_attempt(2))
    slow = await branch(3)
    return [pair, slow, await go.wait(), await pass_gate(name), await double(4)]


async def find_payment(cents: int, *, key: str) -> Applied[int] | NotApplied:
    return Applied(cents) if gate(f"paid.{key}").exists() else NotApplied()


# So often no machine is so busy that it begins too late.
OFTEN = Retry(attempts=20, delay="20ms", factor=1, max_delay="20ms")


@effect(reconcile=find_payment, retry=OFTEN, timeout="200ms", settle="100ms", start_within="1s")
async def pay(cents: int) -> int:
    with gate(f"paid.{effect_key()}").open("a") as receipt:
        receipt.write(f"{cents}\n")
    return cents


@workflow
async def paying(cents: int) -> int:
    return await pay(cents) + await double(cents)


@workflow
async def many_gates(name: str) -> list[str]:
    return [await pass_gate(f"{name}-{n}") for n in range(3)]


@workflow
async def aborting() -> None:
    await abort()


@workflow
async def stumbling(times: int) -> int:
    for n in range(times):
        await abort_at_first(n)
    return times


@workflow
async def innocent(n: int) -> int:
    return 2 * await take_a_while(n)


@step
def hang() -> None:
    note()
    time.sleep(3600)


@workflow
async def stuck_in_a_thread() -> None:
    await hang()


@step(limit=2)
async def pass_narrow_gate(name: str) -> int:
    note()
    while not gate(name).exists():  # noqa: ASYNC110 - another opens it
        await asyncio.sleep(0.01)
    return os.getpid()


@workflow
async def limited(name: str) -> int:
    return await pass_narrow_gate(name)


@step(queue="default")
async def process_elsewhere() -> int:
    return os.getpid()


@workflow
async def asks_elsewhere() -> int:
    return await process_elsewhere()
