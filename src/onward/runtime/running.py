"""Code of users that runs on the worker's event loop, until it ends or is left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from onward.telemetry.scope import StepScope

STOP_SECONDS = 3.0
"""How long code that was stopped may take to end."""


class Running:
    """A task that runs an attempt.

    Code is stopped by a `CancelledError`, which it may catch and go on. Nothing may wait for that:
    after a while it is left behind. Then it has ended for all others, whatever it does.

    Args:
        task: Runs the attempt.
        scope: Where its code is, for the log.
        on_left: Is called when it is left behind.
        context: What timers run in, so that they keep nothing else in memory.
    """

    __slots__ = ("_context", "_loop", "_on_left", "_scope", "_task", "_timer", "ended")

    def __init__(
        self,
        task: asyncio.Task[None],
        scope: StepScope,
        on_left: Callable[[], None],
        context: Context | None = None,
    ) -> None:
        self._loop = task.get_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = task
        self._scope = scope
        self._on_left: Callable[[], None] | None = on_left
        self._context = context
        self._timer: asyncio.TimerHandle | None = None
        task.add_done_callback(self._end)

    @property
    def is_cancelling(self) -> bool:
        """Say whether it was told to stop."""
        return self._task is not None and self._task.cancelling() > 0

    @property
    def is_current(self) -> bool:
        """Say whether its own code asks."""
        return self._task is not None and asyncio.current_task(self._loop) is self._task

    def stop(self) -> None:
        """Stop it, or leave it behind if it does not end."""
        if self._task is not None:
            self._task.cancel()
            self.stops_in(0)

    def stops_in(self, seconds: float) -> None:
        """Take note that it is stopped after so long, and leave it behind if it does not end."""
        if self._timer is None and self._task is not None:
            grace = seconds + STOP_SECONDS
            self._timer = self._loop.call_later(grace, self._leave, context=self._context)

    def _leave(self) -> None:
        task, on_left = self._task, self._on_left
        if task is not None and on_left is not None:
            task.remove_done_callback(self._end)
            task.add_done_callback(_retrieve)
            emit("step.left", self._scope, kind=self._scope.kind, seconds=STOP_SECONDS)
            on_left()
            self._forget()
            self.ended.set_result(None)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._forget()
        if task.cancelled():
            self.ended.cancel()
        elif (error := task.exception()) is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def _forget(self) -> None:
        """Let go of what knows this in turn, so that all of it is freed at once."""
        if self._timer is not None:
            self._timer.cancel()
        self._task = self._on_left = self._timer = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Look at the error of a task that was left behind, or asyncio would complain of it."""
    if not task.cancelled():
        task.exception()
