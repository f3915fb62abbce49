"""Mistakes in the body of a workflow."""

from __future__ import annotations

from tests.e2e.mistakes.mistake import Mistake

BODIES = [
    Mistake(
        "time.sleep",
        ("run.blocking", "move blocking code into a step"),
        """
import time

@workflow
async def order(number):
    time.sleep(2)  # here
    return number
""",
        status=0,
    ),
    Mistake(
        "a lock of all runs",
        ("cannot wait for a lock", "a step with limit="),
        """
lock = asyncio.Lock()

@step
async def pay(number):
    return number

@workflow
async def order(number):
    async with lock:  # here
        await asyncio.sleep(0.2)
        return await pay(number)
""",
        """
async def main():
    app = App("onward.db")
    async with app, app.worker():
        runs = [await app.start(order, number) for number in range(3)]
        for run in runs:
            print("result:", await run.result())


asyncio.run(main())
""",
    ),
    Mistake(
        "a loop without an await",
        ("run.blocking", "workflow=order", "move blocking code into a step"),
        """
@workflow
async def order(number):
    while True: number += 1  # here
""",
        status=None,
    ),
    Mistake(
        "an error in the workflow",
        ("ValueError: no such item", "order"),
        """
@workflow
async def order(number):
    raise ValueError("no such item")  # here
""",
    ),
    Mistake(
        "a huge result",
        ("pay()", "the limit is 2,097,152", "Keep the data elsewhere"),
        """
@step
async def pay(number):
    return "x" * 3_000_000

@workflow
async def order(number):
    return await pay(number)
""",
    ),
]
