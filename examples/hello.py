"""The smallest workflow: a step, a durable sleep, another step.

python examples/hello.py Ada
"""

import asyncio
import sys

import onward
from onward import App, step, workflow


@step
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@step
def shout(text: str) -> str:  # a sync step runs in a thread
    return text.upper()


@workflow
async def hello(name: str) -> str:
    text = await greet(name)  # recorded: not repeated after a crash
    await onward.sleep("1s")  # or "30d": holds no slot, thread or connection
    return await shout(text)


async def main(name: str) -> None:
    app = App("onward.db")
    async with app, app.worker():
        run = await app.start(hello, name)
        print(f"run {run.id} started")
        print(await run.result(timeout="1m"))
        for record in await run.history():
            print(f"  {record.seq}  {record.kind:6} {record.name:6} {record.state}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else "world"))
