"""A client in a process of its own: starts and signals runs, and tells what was acknowledged."""

from __future__ import annotations

import asyncio
import sys

from onward import App
from tests.e2e.engine.shapes import SIGNAL, go, signalled


async def ask(url: str, count: int) -> None:
    async with App(url) as app:
        for n in range(count):
            run = await app.start(signalled.options(id=f"asked-{n}"), n)
            print(f"started {run.id}", flush=True)
            await run.signal(go, SIGNAL, message_id="go")  # again: it is delivered once
            print(f"signalled {run.id}", flush=True)


if __name__ == "__main__":
    asyncio.run(ask(sys.argv[1], int(sys.argv[2])))
