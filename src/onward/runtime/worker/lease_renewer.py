"""Renewing a worker's lease from a thread of its own, so that a busy event loop does not lose it.

When the worker's event loop has not ticked for minutes the worker is stuck, and its lease is left
to run out.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from onward.core.lease import LEASE, RENEW_EVERY, STALL_LIMIT, may_renew
from onward.errors import LeaseLost
from onward.runtime.worker.outage import AWAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration
    from onward.core.ports import Clock, Spawn, Spawned
    from onward.engine.worker_engine import Renewer, WorkerEngine
    from onward.runtime.worker.stall_guard import StallGuard
    from onward.telemetry.observer import Observer

RENEWALS_A_LEASE = LEASE // RENEW_EVERY

_LOOK_SECONDS = 0.25
_LOOKS_A_LEASE = 24


class LeaseRenewer:
    """Renews one worker's lease until it is stopped, or the lease is lost."""

    def __init__(
        self,
        worker: str,
        length: Duration,
        engine: WorkerEngine,
        clock: Clock,
        failed: Callable[[Exception], None],
        observer: Observer,
    ) -> None:
        self._worker = worker
        self._length = length
        self._renew_every = length // RENEWALS_A_LEASE
        self._look_seconds = min(_LOOK_SECONDS, length / _LOOKS_A_LEASE / 1_000_000)
        self._engine = engine
        self._clock = clock
        self._failed = failed
        self._observer = observer
        self._stop = threading.Event()
        self._thread: Spawned | None = None
        self._guard: StallGuard | None = None
        self._ticked = self.renewed = clock.monotonic()
        """`renewed` is when the last renewal began that was answered."""

    def start(self, spawn: Spawn, guard: StallGuard) -> None:
        """Start the thread, which also releases runs while the event loop is blocked."""
        self._guard = guard
        self._thread = spawn(self._work, name=f"onward-lease-{self._worker}")

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def has_thread(self) -> bool:
        return self._thread is not None

    def loop_ticked(self) -> None:
        """Note that the worker's loop is alive."""
        self._ticked = self._clock.monotonic()

    def _work(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._renew())
        except Exception as error:  # noqa: BLE001 - the worker must fail with it
            self._failed(error)

    async def _renew(self) -> None:
        while not self._stop.is_set():
            try:
                async with self._engine.renewer() as renewer:
                    await self._renew_by(renewer)
            except AWAY:
                await asyncio.sleep(self._look_seconds)

    async def _renew_by(self, renewer: Renewer) -> None:
        while not self._stop.is_set():
            await asyncio.sleep(self._look_seconds)
            limit = STALL_LIMIT
            if self._guard is not None:
                await self._guard.look(renewer)
                limit = self._guard.limit
            now = self._clock.monotonic()
            is_alive = may_renew(last_tick=self._ticked, now=now, limit=limit)
            if is_alive and not await self.tick(renewer):
                self._stop.set()

    async def tick(self, renewer: Renewer) -> bool:
        """Renew if it is time to, and return whether the lease is still there.

        An outage costs no worker its lease, but other workers wait for only one lease length after
        it: so a renewal that failed is repeated at the next look.
        """
        begun = self._clock.monotonic()
        if begun - self.renewed < self._renew_every:
            return True
        try:
            kept = await renewer.renew(self._length)
        except AWAY:
            return True
        self.renewed = begun
        self._observer.lease_renewed(self._worker, self._clock.monotonic() - begun, kept=kept)
        if not kept:
            self._failed(LeaseLost(self._worker, "the lease of worker"))
        return kept
