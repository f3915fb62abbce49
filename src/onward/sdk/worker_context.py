"""A worker that runs while the body of an `async with` runs, or until it fails."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.runtime.worker.worker import Worker


@asynccontextmanager
async def at_work(worker: Worker) -> AsyncIterator[Worker]:
    """Run a worker while the body of `async with` runs; its failure ends that body."""
    failure: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run(), name=f"onward worker {worker.id}")
            await worker.ready.wait()
            try:
                yield worker
            finally:
                worker.stop()
    except BaseExceptionGroup as failed:
        failure = failed.exceptions[0]
    if failure is not None:
        raise failure  # not while the group is handled: that would hide its own cause
