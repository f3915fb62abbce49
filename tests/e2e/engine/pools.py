"""A worker is killed that had forked: its children live on, and must hold nothing of the store."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from onward import App
from tests.e2e.engine.sampled import busy, pooled

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew

WRITES = 3_000
RUNS = 6
START_SECONDS = 10.0
"""How long another process may take to have a start acknowledged."""


async def a_worker_that_forked_dies(crew: Crew, seed: int) -> None:
    """Kill a worker with a pool of processes while it writes, and start a run elsewhere."""
    worker = await crew.worker()
    async with App(crew.url) as app:
        assert await app.run(pooled, 3) == 9
        for _ in range(RUNS):
            await app.start(busy, WRITES)
    orphans = _children(worker.pid)
    assert orphans, "the worker has not forked"
    await asyncio.sleep(random.Random(seed).uniform(0.2, 0.6))
    await worker.kill()
    try:
        client = crew.client(1)
        async with asyncio.timeout(START_SECONDS):
            assert await client.lines(), "nothing was acknowledged"
    finally:
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """Return the processes that a process has forked."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found
