"""The progress of runs: only the last value is written, a few times a second."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import copy_context
from typing import TYPE_CHECKING

from onward.errors import OnwardError

if TYPE_CHECKING:
    from onward.engine.worker_engine import WorkerEngine

EVERY_SECONDS = 0.25


class ProgressBoard:
    """Writes the progress of the runs of one worker, each at most a few times a second."""

    def __init__(self, engine: WorkerEngine, loop: asyncio.AbstractEventLoop) -> None:
        self._engine = engine
        self._loop = loop
        self._context = copy_context()  # not that of the first run
        self._values: dict[str, tuple[int, bytes]] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    def put(self, uid: str, fence: int, value: bytes) -> None:
        """Note the progress of a run; from any thread."""
        self._loop.call_soon_threadsafe(self._put, uid, fence, value)

    def _put(self, uid: str, fence: int, value: bytes) -> None:
        self._values[uid] = fence, value
        if self._task is None:
            self._task = self._loop.create_task(
                self._write(), name="onward progress", context=self._context
            )

    async def _write(self) -> None:
        try:
            while self._values and not self._closed.is_set():
                await self.tick()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(EVERY_SECONDS):
                        await self._closed.wait()
        finally:
            self._task = None

    async def tick(self) -> None:
        """Write what is new."""
        values, self._values = self._values, {}
        for uid, (fence, value) in values.items():
            with contextlib.suppress(OnwardError):  # progress is only informational
                await self._engine.keep_progress(uid, fence, value)

    async def close(self) -> None:
        """Write what is new, and stop."""
        self._closed.set()
        if self._task is not None:
            await asyncio.wait([self._task])  # a write under way must not overtake the last one
        await self.tick()
