"""The supervisor of a worker: when it has lost its lease, another takes its place.

A worker lives under one id and one lease, and may not go on without. That it lost them says only
that it was cut off for long, or stood still; so this process goes on, under a fresh id.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from functools import partial
from typing import TYPE_CHECKING

from onward.core.retry import Retry
from onward.errors import LeaseLost
from onward.runtime.worker.outage import AWAY
from onward.runtime.worker.process import tune_collector
from onward.runtime.worker.worker import Worker
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.runtime.definition import Limits
    from onward.runtime.execution.execution import Execution
    from onward.runtime.registry import Registry
    from onward.runtime.worker.options import Options, Ports
    from onward.store.store import Store

REJOINING = Retry(attempts=None, delay="100ms", factor=2, max_delay="5s", jitter=0.5)
"""How long to wait before the next worker begins if the one before it did not live for long."""


class Supervisor:
    """Works on the runs of some queues until it is stopped, whatever its leases live to see."""

    def __init__(
        self, store: Store, registry: Registry, options: Options, limits: Limits, ports: Ports
    ) -> None:
        self._make = partial(Worker, store, registry, options, limits, ports)
        self._clock = ports.clock
        self._randomness = ports.randomness
        self._long = options.lease
        self.worker = self._make()
        """The worker of now."""
        self.ready = self.worker.ready
        """Set once the first worker has begun to claim."""
        self._stopped = asyncio.Event()

    @property
    def id(self) -> str:
        """The id of the worker of now."""
        return self.worker.id

    @property
    def running(self) -> Mapping[str, Execution]:
        """The runs in its hands."""
        return self.worker.running

    async def run(self) -> None:
        """Work until `stop()`; then let what is being worked on come to an end, or give it back."""
        before: Worker | None = None
        short_lives = 0
        while True:
            began = self._clock.monotonic()
            try:
                await self.worker.run(before)
            except LeaseLost:
                before = self.worker
            except AWAY:
                if self._stopped.is_set() and before is not None:
                    return  # it was stopped while it waited for the store
                raise
            else:
                return
            if self._stopped.is_set():
                return
            is_long = self._clock.monotonic() - began >= self._long
            short_lives = 0 if is_long else short_lives + 1
            await self._pause(short_lives)
            self._replace(before)

    async def _pause(self, short_lives: int) -> None:
        if short_lives:
            seconds = REJOINING.delay_after(short_lives, self._randomness.random()) / 1_000_000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    def _replace(self, before: Worker) -> None:
        self.worker = self._make()
        self.worker.ready = self.ready
        if self._stopped.is_set():
            self.worker.stop()
        emit("worker.replaced", worker=self.id, before=before.id, runs=len(before.held))

    def stop(self) -> None:
        """Claim no more and leave."""
        self._stopped.set()
        self.worker.stop()

    async def serve(self) -> None:
        """Wait until this process is told to stop by SIGTERM or SIGINT, or the worker has ended.

        A process that does this is a worker and nothing else, and is tuned for it.
        """
        tune_collector()
        loop = asyncio.get_running_loop()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in handlers:
            loop.add_signal_handler(number, self.stop)
        try:
            await self._stopped.wait()
        finally:
            for number, handler in handlers.items():
                loop.remove_signal_handler(number)
                if handler is not None:  # asyncio restores only the default handlers
                    signal.signal(number, handler)
