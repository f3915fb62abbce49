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
        self._writing: dict[str, bytes] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    def put(self, uid: str, fence: int, value: bytes) -> None:
        """Note the progress of a run; from any thread."""
        # At once: the run may end before the loop gets to a callback.
        self._values[uid] = fence, value
        self._loop.call_soon_threadsafe(self._begin)

    def pending(self, uid: str) -> bytes | None:
        """Return the last value of a run, if it is not written yet."""
        waiting = self._values.get(uid)
        return self._writing.get(uid) if waiting is None else waiting[1]

    def _begin(self) -> None:
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
        for uid in list(self._values):
            fence, value = self._values.pop(uid)
            self._writing[uid] = value
            try:
                await self._engine.keep_progress(uid, fence, value)
            except OnwardError:
                pass  # progress is only informational
            finally:
                del self._writing[uid]

    async def close(self) -> None:
        """Write what is new, and stop."""
        self._closed.set()
        if self._task is not None:
            await asyncio.wait([self._task])  # a write under way must not overtake the last one
        await self.tick()
