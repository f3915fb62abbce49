"""A client in a process of its own: publishes events at random, and reports each that is there."""

from __future__ import annotations

import asyncio
import random
import sys

from onward import App
from tests.e2e.pipelines.parcels import KEYS, received

PAUSES_SECONDS = (0.0, 0.05)
AGAIN = 0.2
"""How often an event is published a second time."""


async def publish(url: str, count: int, seed: int) -> None:
    rng = random.Random(seed)
    async with App(url) as app:
        for n in range(count):
            for _ in range(1 + (rng.random() < AGAIN)):
                await app.publish(received, "from a client", id=f"client-{n}", key=str(n % KEYS))
            print(f"published client-{n}", flush=True)
            await asyncio.sleep(rng.uniform(*PAUSES_SECONDS))


if __name__ == "__main__":
    asyncio.run(publish(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
