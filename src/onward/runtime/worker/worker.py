"""The worker of a process: its configuration, and one session after another.

A session lives under one id and one lease, and ends when it loses them. That says only that it was
cut off for long, or stood still; so the worker continues with another session, under a new id.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from onward.core.retry import Retry
from onward.errors import LeaseLost
from onward.runtime.body.unawaited import report_coroutines
from onward.runtime.worker.outage import AWAY
from onward.runtime.worker.process import stopped_by_signals, tune_collector
from onward.runtime.worker.session import WorkerSession
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.model.workers import LostWorker
    from onward.runtime.definition import Limits
    from onward.runtime.execution.execution import Execution
    from onward.runtime.registry import Registry
    from onward.runtime.worker.options import Options, Ports

REJOINING = Retry(attempts=None, delay="100ms", factor=2, max_delay="5s", jitter=0.5)
"""How long to wait before the next session if the one before it was short."""


class Worker:
    """Executes the runs in its queues until it is stopped.

    A worker that loses its lease continues under a new id.

    Args:
        registry: What it can run.
        options: How much it takes on.
        limits: The retries and timeouts of steps that have none of their own.
        ports: How it reaches the engine and the machine.
    """

    def __init__(self, registry: Registry, options: Options, limits: Limits, ports: Ports) -> None:
        self._registry = registry
        self._options = options
        self._limits = limits
        self._ports = ports
        self._stopped = asyncio.Event()
        self._ended = asyncio.Event()
        self._exits_when_stuck = False
        self.ready = asyncio.Event()
        """Set once the first session has begun to claim."""
        self.session = self._open_session()

    def _open_session(self, before: LostWorker | None = None) -> WorkerSession:
        session = WorkerSession(
            self._registry, self._options, self._limits, self._ports, self.ready, before
        )
        session.exits_when_stuck = self._exits_when_stuck
        return session

    @property
    def id(self) -> str:
        """The id of the worker's current session."""
        return self.session.id

    @property
    def running(self) -> Mapping[str, Execution]:
        """The runs that it has, by uid."""
        return self.session.running

    async def run(self) -> None:
        """Work until `stop()`; then let what is being worked on come to an end, or give it back."""
        report_coroutines()
        try:
            await self._run_sessions()
        finally:
            self._ended.set()

    async def _run_sessions(self) -> None:
        before: LostWorker | None = None
        short_sessions = 0
        while True:
            began = self._ports.clock.monotonic()
            try:
                await self.session.run()
            except LeaseLost:
                before = self.session.lost()
            except AWAY:
                if self._stopped.is_set() and before is not None:
                    return  # it was stopped while it waited for the engine
                raise
            else:
                return
            if self._stopped.is_set():
                return
            is_long = self._ports.clock.monotonic() - began >= self._options.lease
            short_sessions = 0 if is_long else short_sessions + 1
            await self._pause(short_sessions)
            self._replace(before)

    async def _pause(self, short_sessions: int) -> None:
        if short_sessions:
            drawn = self._ports.randomness.random()
            seconds = REJOINING.delay_after(short_sessions, drawn) / 1_000_000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    def _replace(self, before: LostWorker) -> None:
        self.session = self._open_session(before)
        if self._stopped.is_set():
            self.session.stop()
        lost = len(before.held)
        emit("worker.replaced", worker=self.id, lost_worker=before.worker, lost_runs=lost)

    def stop(self) -> None:
        """Stop claiming runs, and finish or release those in progress."""
        self._stopped.set()
        self.session.stop()

    async def serve(self, *, exit_when_stuck: bool = False) -> None:
        """Wait until this process receives SIGTERM or SIGINT and the worker has shut down.

        After the first signal, the worker claims no more runs, and waits up to `drain` for running
        steps. After a second signal, it abandons these steps and releases its runs, and the process
        exits with status 128 plus the signal number.

        This method also tunes the process for executing runs, so call it only in a process that
        does nothing else.

        Args:
            exit_when_stuck: Whether to exit with status 70 when the event loop has been blocked for
                `stall_limit`, so that a supervisor restarts the process.
        """
        self._exits_when_stuck = self.session.exits_when_stuck = exit_when_stuck
        tune_collector()
        with stopped_by_signals(self._stop_on_signal):
            await self._ended.wait()

    def _stop_on_signal(self, name: str) -> None:
        self.stop()
        self.session.report_stopping(name)
