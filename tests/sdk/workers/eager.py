"""Runs a workflow on a host whose tasks begin at once, where this Python has such tasks."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import onward
from onward import App, effect, step, workflow


@step
async def halve(n: int) -> float:
    return n / 2


@step
async def negate(n: float) -> float:
    await asyncio.sleep(0)
    return -n


@effect(timeout="5s")
async def print_out(numbers: list[float]) -> list[float]:
    return numbers


@workflow
async def calculate(numbers: list[int]) -> list[float]:
    halves = await asyncio.gather(*(halve(number) for number in numbers))
    await onward.sleep("10ms")
    async with asyncio.TaskGroup() as group:
        negated = [group.create_task(negate(half)) for half in halves]
    return await print_out([task.result() for task in negated])


async def main(url: str) -> None:
    begin_at_once: Any = getattr(asyncio, "eager_task_factory", None)  # from 3.12 on
    asyncio.get_running_loop().set_task_factory(begin_at_once)
    app = App(url)
    async with app, app.worker(), asyncio.timeout(30):
        found = await asyncio.gather(*(app.run(calculate, [n, n + 2]) for n in range(20)))
    print(found)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
