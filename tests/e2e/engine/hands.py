"""A worker whose lease, drain and cache a test may choose; the front door offers less."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from onward.runtime.definition import Limits
from onward.runtime.registry import Registry
from onward.runtime.worker.options import Ports
from onward.runtime.worker.supervisor import Supervisor
from onward.sdk import step, workflow
from onward.store.clock import SystemClock, SystemRandomness, spawn_thread
from onward.store.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.runtime.worker.options import Options


@asynccontextmanager
async def working(url: str, options: Options) -> AsyncIterator[Supervisor]:
    """Work on every workflow and step that was defined in this process, while the body runs."""
    definitions = [known for same_name in workflow.registered.values() for known in same_name]
    steps = [known for same_name in step.registered.values() for known in same_name]
    ports = Ports(SystemClock(), SystemRandomness(), spawn_thread, lambda: open_store(url))
    async with open_store(url) as store:
        worker = Supervisor(store, Registry(definitions, steps), options, Limits(), ports)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(worker.run())
                await worker.ready.wait()
                try:
                    yield worker
                finally:
                    worker.stop()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
