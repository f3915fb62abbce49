"""A worker whose lease, drain and cache a test may choose; the front door offers less."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from onward.engine.local_client import LocalClient
from onward.engine.local_worker import LocalWorker
from onward.engine.server_address import is_server
from onward.runtime.definition import Limits
from onward.runtime.registry import Registry
from onward.runtime.worker.options import Ports
from onward.runtime.worker.worker import Worker
from onward.sdk import step, workflow
from onward.sdk.bulk_workflow import BulkWorkflow
from onward.store.opening import open_store
from onward.system.clock import SystemClock, SystemRandomness, spawn_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from onward.engine.client_engine import ClientEngine
    from onward.engine.worker_engine import WorkerEngine, WorkerHooks
    from onward.runtime.pipelines.definition import HandlerDefinition
    from onward.runtime.worker.options import Options


@asynccontextmanager
async def working(
    url: str, options: Options, handlers: Iterable[HandlerDefinition] = ()
) -> AsyncIterator[Worker]:
    """Work on every workflow and step of this process, and on handlers, while the body runs."""
    definitions = [known for same_name in workflow.registered.values() for known in same_name]
    steps = [known for same_name in step.registered.values() for known in same_name]
    async with engines(url) as (client, connect):
        ports = Ports(SystemClock(), SystemRandomness(), spawn_thread, connect)
        own = BulkWorkflow(client).definition
        registry = Registry([*definitions, own], steps, handlers=handlers)
        worker = Worker(registry, options, Limits(), ports)
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


@asynccontextmanager
async def engines(
    url: str,
) -> AsyncIterator[tuple[ClientEngine, Callable[[str, WorkerHooks], WorkerEngine]]]:
    """Open a database or connect to servers; enter with the engines of clients and workers."""
    if is_server(url):
        from onward.wire.remote_client import connect  # it needs extras

        async with connect(url) as client:
            yield client, client.worker
        return
    clock = SystemClock()
    async with open_store(url) as store:
        yield LocalClient(store, clock), partial(LocalWorker, store, clock, lambda: open_store(url))
