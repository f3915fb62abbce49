"""Mistakes in definitions and calls."""

from __future__ import annotations

from tests.e2e.mistakes.mistake import Mistake

CALLS = [
    Mistake(
        "a step called outside a workflow",
        ("'pay' was called outside a workflow", "Call it in a workflow"),
        """
@step
async def pay(number):
    return number

async def main():
    async with App("onward.db"):
        print("result:", await pay(7))  # here

asyncio.run(main())
""",
        "",
        status=0,
    ),
    Mistake(
        "a sync workflow",
        ("order", "async def"),
        """
@workflow  # here
def order(number):
    return number
""",
    ),
    Mistake(
        "an argument that cannot be stored",
        ("number", "order"),
        """
@workflow
async def order(number):
    return number

async def main():
    app = App("onward.db")
    async with app, app.worker():
        await app.run(order, open("notes.txt", "w"))  # here

asyncio.run(main())
""",
        "",
    ),
    Mistake(
        "a lambda as a step",
        ("lambda", "def"),
        """
double = step(lambda number: number * 2)  # here
""",
        "",
    ),
    Mistake(
        "an id with other arguments",
        ("order-1",),
        """
@workflow
async def order(number):
    return number

async def main():
    app = App("onward.db")
    async with app, app.worker():
        await app.run(order.options(id="order-1"), 7)
        await app.run(order.options(id="order-1"), 8)  # here

asyncio.run(main())
""",
        "",
    ),
    Mistake(
        "an option among the arguments",
        ("unexpected keyword argument 'id'", "order.options(id=...)"),
        """
@workflow
async def order(number):
    return number

async def main():
    async with App("onward.db") as app:
        await app.start(order, 7, id="order-1")  # here

asyncio.run(main())
""",
        "",
    ),
    Mistake(
        "an app that is not open",
        ("async with",),
        """
@workflow
async def order(number):
    return number

async def main():
    app = App("onward.db")
    await app.run(order, 7)  # here

asyncio.run(main())
""",
        "",
    ),
    Mistake(
        "a sync call from a running loop",
        ("would block the running event loop", "Use the async App"),
        """
@workflow
async def order(number):
    return number

async def main():
    with App("onward.db").sync() as app:  # here
        app.start(order, 7)

asyncio.run(main())
""",
        "",
    ),
    Mistake(
        "a renamed step",
        ("run.unread", "run=order-1", ":pay#1", "keep its old name with name="),
        """
@step
async def pay(number):
    return number

@step
async def charge(number):
    return number

@workflow(name="order")
async def before(number):
    await pay(number)
    await Signal("go", bool).wait()

@workflow(name="order")
async def order(number):
    await charge(number)
    await Signal("go", bool).wait()

async def main():
    app = App("onward.db")
    async with app, app.worker(workflows=[before]):
        run = await app.start(before.options(id="order-1"), 7)
        while not await run.history():
            await asyncio.sleep(0.01)
    async with app, app.worker(workflows=[order]):
        run = await app.get("order-1")
        await run.signal("go", True)
        await run.result(timeout="3s")

asyncio.run(main())
""",
        "",
        status=0,
    ),
]
