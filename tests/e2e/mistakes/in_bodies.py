"""Mistakes in the body of a workflow."""

from __future__ import annotations

from tests.e2e.mistakes.mistake import DEBUG, Mistake

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
        "a random number",
        ("random", "onward.random()"),
        """
import random

@workflow
async def order(number):
    return random.random()  # here
""",
        DEBUG,
    ),
    Mistake(
        "the time of day",
        ("datetime.now", "onward.now()"),
        """
from datetime import datetime

@workflow
async def order(number):
    return datetime.now().isoformat()  # here
""",
        DEBUG,
    ),
    Mistake(
        "a random id",
        ("uuid4", "onward.uuid()"),
        """
from uuid import uuid4

@workflow
async def order(number):
    return str(uuid4())  # here
""",
        DEBUG,
    ),
    Mistake(
        "a request by urllib",
        ("step",),
        """
from urllib.request import urlopen

@workflow
async def order(number):
    return urlopen("http://127.0.0.1:9").read()  # here
""",
        DEBUG,
    ),
    Mistake(
        "a request by an async library",
        ("step",),
        """
import httpx2 as httpx

@workflow
async def order(number):
    async with httpx.AsyncClient() as client:
        return (await client.get("http://127.0.0.1:9")).text  # here
""",
    ),
    Mistake(
        "a thread",
        ("thread", "step"),
        """
from threading import Thread

@workflow
async def order(number):
    Thread(target=print).start()  # here
    return number
""",
        DEBUG,
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
        "a step without await",
        ("run.unawaited", "calls=pay", "coroutine 'pay' was never awaited", "pay(number)"),
        """
@step
async def pay(number):
    return number

@workflow
async def order(number):
    pay(number)  # here
    return number
""",
        status=0,
    ),
    Mistake(
        "a step that is returned without await",
        ("order()", "is a coroutine, not its result", "Put await before the call"),
        """
@step
async def pay(number):
    return number

@workflow
async def order(number) -> int:
    return pay(number)
""",
    ),
    Mistake(
        "a task that is not awaited",
        ("run.unawaited", "pay", "await"),
        """
@step
async def pay(number):
    return number

@workflow
async def order(number):
    asyncio.create_task(pay(number))  # here
    return number
""",
        DEBUG,
        status=0,
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
