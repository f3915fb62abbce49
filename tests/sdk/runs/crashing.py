"""A process that works on a run and dies in it, twice: in a step, and in the body."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import onward
from onward import App, step, workflow

DIED = 9


def die_once(marker: str) -> None:
    """End this process, unless one has ended here before."""
    path = Path(sys.argv[2]) / marker
    if not path.exists():
        path.touch()
        os._exit(DIED)


@step
async def counts_and_dies() -> None:
    onward.current().counters.add("dying")
    die_once("step")


@step
async def counts_and_lives() -> None:
    onward.current().counters.add("living")


@workflow
async def counts_to_the_end() -> None:
    onward.current().counters.add("begun")
    await counts_and_lives()
    await counts_and_dies()
    onward.current().counters.add("almost")
    die_once("body")
    await counts_and_lives()
    onward.current().counters.add("ended")


async def main() -> None:
    app = App(sys.argv[1])
    async with app, app.worker():
        run = await app.start(counts_to_the_end.options(id="count"))
        await run.result(timeout="30s")


if __name__ == "__main__":
    asyncio.run(main())
