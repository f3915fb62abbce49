"""A worker in a process of its own: says when it is ready, and how it ended by its exit status.

Without options it is `App(url).worker()`, as users have it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from onward import App
from onward.core.instant import SECOND
from onward.runtime.worker.options import Options
from onward.sdk.pipelines.process import Served, serve
from tests.e2e.effects import orders
from tests.e2e.engine import (
    bulks,
    clocks,
    gates,
    kinfolk,
    narrows,
    outages,
    sampled,
    shapes,
    stalls,
    ticks,
)
from tests.e2e.engine.hands import working
from tests.e2e.pipelines import letters, parcels
from tests.e2e.remote import mix

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from onward.runtime.worker.worker import Worker

# Importing them defines their workflows.
KNOWN = (
    shapes,
    gates,
    kinfolk,
    sampled,
    orders,
    outages,
    clocks,
    stalls,
    bulks,
    ticks,
    narrows,
    mix,
)

PIPELINES = {each.name: each for each in (*parcels.PIPELINES, letters.letters)}

SAID = {"worker.stopping": "leaving", "worker.replaced": "replaced"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--exit-when-stuck", action="store_true")
    parser.add_argument("--pipelines", nargs="+", default=(), choices=PIPELINES)
    parser.add_argument("--death", nargs=2, default=())
    for name in ("lease", "drain", "stall", "stall-limit"):
        parser.add_argument(f"--{name}", type=lambda text: int(float(text) * SECOND))
    for name in ("slots", "warm"):
        parser.add_argument(f"--{name}", type=int)
    given = vars(parser.parse_args())
    url, workers, exits = (given.pop(name) for name in ("url", "workers", "exit_when_stuck"))
    served = serve([PIPELINES[name] for name in given.pop("pipelines")])
    if death := given.pop("death"):
        letters.die_after(*death)
    options = {name: value for name, value in given.items() if value is not None}
    logger = logging.getLogger("onward.worker")
    logger.addHandler(Herald())
    logger.setLevel(logging.INFO)
    asyncio.run(work([a_worker(url, options, served) for _ in range(workers)], exits=exits))
    return 0


class Herald(logging.Handler):
    """Says when a worker leaves, and when it has lost its lease and another takes its place."""

    def emit(self, record: logging.LogRecord) -> None:
        said = SAID.get(vars(record).get("event", ""))
        if said is not None:
            print(said, flush=True)


def a_worker(
    url: str, options: dict[str, Any], served: Served
) -> AbstractAsyncContextManager[Worker]:
    if not options:
        return App(url).worker(pipelines=())
    return working(url, Options(**options, pipelines=served.specs), served.handlers)


async def work(workers: list[AbstractAsyncContextManager[Worker]], *, exits: bool = False) -> None:
    first, *others = workers
    if others:
        async with first:
            await work(others, exits=exits)
        return
    async with first as worker:
        print("ready", flush=True)
        await worker.serve(exit_when_stuck=exits)


if __name__ == "__main__":
    sys.exit(main())
