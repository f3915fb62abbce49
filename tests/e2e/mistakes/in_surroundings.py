"""Mistakes with databases, files, processes and deployed code."""

from __future__ import annotations

from tests.e2e.mistakes.mistake import Mistake

OPEN = """

async def main():
    async with App({}) as app:
        pass


asyncio.run(main())
"""

SURROUNDINGS = [
    Mistake(
        "a wrong password",
        ("refused the password", "Check the user and the password"),
        "import os",
        OPEN.format('os.environ["WRONG_PASSWORD"]'),
    ),
    Mistake(
        "an unknown host",
        ("no-such-host.invalid", "host"),
        "",
        OPEN.format('"postgresql://me@no-such-host.invalid/shop"'),
    ),
    Mistake(
        "a missing database",
        ("names a database that does not exist", "createdb"),
        "import os",
        OPEN.format('os.environ["NO_DATABASE"]'),
    ),
    Mistake(
        "a missing driver",
        ("asyncpg", "pip install"),
        'import sys\nsys.modules["asyncpg"] = None',
        OPEN.format('"postgresql://me@localhost/shop"'),
    ),
    Mistake(
        "a folder that cannot be written",
        ("/proc/shop.db",),
        "",
        OPEN.format('"/proc/shop.db"'),
    ),
    Mistake(
        "a worker that does not know the workflow",
        ("run.stuck", "no worker knows workflow 'order'", "Start a worker"),
        """
@workflow
async def order(number):
    return number

@workflow
async def invoice(number):
    return number
""",
        """
async def main():
    app = App("onward.db")
    async with app, app.worker(workflows=[invoice]):
        await app.run(order, 7)


asyncio.run(main())
""",
        status=None,
    ),
    Mistake(
        "a workflow that was deleted while its runs were open",
        ("order-1", "no worker knows workflow 'order'"),
        """
async def before():
    @workflow
    async def order(number):
        await Signal("go", bool).wait()

    app = App("onward.db")
    async with app, app.worker(workflows=[order]):
        await app.start(order.options(id="order-1"), 7)

@workflow
async def invoice(number):
    return number

async def after():
    app = App("onward.db")
    async with app, app.worker(workflows=[invoice]):
        run = await app.get("order-1")
        await run.signal("go", True)
        await run.result(timeout="6s")

asyncio.run(before())
asyncio.run(after())
""",
        "",
    ),
    Mistake(
        "a second worker on the same file",
        ("result: 7",),
        """
@workflow
async def order(number):
    return number

async def main():
    one, other = App("onward.db"), App("onward.db")
    async with one, other, one.worker(), other.worker():
        print("result:", await one.run(order, 7))

asyncio.run(main())
""",
        "",
        status=0,
    ),
    Mistake(
        "Ctrl-C while a run waits",
        ("KeyboardInterrupt",),
        """
import os, signal

@workflow
async def order(number):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(3600)
""",
        status=-2,
    ),
    Mistake(
        "an app used after fork",
        ("is a fork of it", "Open an App in the new process"),
        """
import os

@workflow
async def order(number):
    return number

app = App("onward.db").sync()
with app:
    if os.fork() == 0:
        app.start(order, 7)  # here
    else:
        os.wait()
""",
        "",
        status=0,
    ),
]
