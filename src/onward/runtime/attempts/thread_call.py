"""A call in a thread, as the worker's event loop sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.runtime.attempts.threads import Job, StepThreads
    from onward.telemetry.scope import StepScope

GRACE_SECONDS = 1.0
"""How long code in a thread may take to notice that it should stop."""

WAIT_SECONDS = 10.0
"""How long a call may wait for a thread before it is logged."""

WARN_SECONDS = 60.0
"""How long after such a warning others of the same worker are not logged."""


class ThreadCall:
    """One call in a thread: it waits for a thread, begins, and ends or is left behind."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: StepThreads | None,
        scope: StepScope,
        work: Callable[[], Any],
    ) -> None:
        """Queue the call.

        Raises:
            NoThread: all threads are held by calls that were left behind.
        """
        self._loop = loop
        self._threads = threads
        self._scope = scope
        self._job: Job | None = None
        self._warning: asyncio.TimerHandle | None = None
        self.begun: asyncio.Future[None] = loop.create_future()
        if threads is None:
            self.ended: asyncio.Future[Any] = loop.run_in_executor(None, work)
            self.begun.set_result(None)
            return
        self._job = threads.start(scope.step, work, self._tell_begun)
        self.ended = asyncio.wrap_future(self._job.answer, loop=loop)
        if self._job.must_wait:
            self._warning = loop.call_later(WAIT_SECONDS, self._warn)
            self.ended.add_done_callback(lambda _: self._begin())
        else:
            self.begun.set_result(None)

    def _tell_begun(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._warning is not None:
            self._warning.cancel()
        if not self.begun.done():
            self.begun.set_result(None)

    def _warn(self) -> None:
        assert self._threads is not None
        if self._loop.time() >= self._threads.silent_until:
            self._threads.silent_until = self._loop.time() + WARN_SECONDS
            held = self._threads.holders()
            emit(
                "step.waits_for_thread",
                self._scope,
                kind=self._scope.kind,
                waited_seconds=WAIT_SECONDS,
                held_by=held,
            )

    def withdraw(self) -> bool:
        """Take back a call that has not begun, and say whether that was in time."""
        return self._job is not None and self._job.answer.cancel()

    def leave(self) -> None:
        """Wait for this no more. If it does not end in a moment, its thread is left behind."""
        if not self.withdraw() and not self.ended.done():
            self._loop.call_later(GRACE_SECONDS, self._leave_behind)

    def _leave_behind(self) -> None:
        if self._job is None or self._threads is None:
            return
        left = self._threads.leave(self._job)
        if left is not None:
            emit(
                "step.thread_abandoned",
                self._scope,
                kind=self._scope.kind,
                overrun_seconds=GRACE_SECONDS,
                abandoned_threads=left,
            )
