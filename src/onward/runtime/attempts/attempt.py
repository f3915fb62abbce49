"""One attempt of a step or an effect: the task that runs its code, and what the code sees of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import encode
from onward.engine.notes import Noted
from onward.engine.payloads import pack
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from contextvars import Context

    from onward.model.runs import ClaimedRun
    from onward.telemetry.scope import StepScope

STOP_SECONDS = 3.0
"""How long code that was stopped may take to end."""


class Reporting(Protocol):
    """The run of an attempt, which publishes its progress."""

    def report_progress(self, value: bytes) -> None: ...


class Attempt:
    """An attempt that runs in a task of its own.

    Code is stopped by a `CancelledError`, which it may catch and go on. Nothing may wait for that:
    after a while the attempt is left behind, and has ended for everything else.

    Args:
        run: The run it belongs to.
        scope: Which step or effect it is, and which attempt; for logs and for its own code.
        owner: Publishes progress of the run.
    """

    __slots__ = (
        "_home",
        "_noted",
        "_reporting",
        "_task",
        "_timer",
        "is_begun",
        "is_left",
        "is_stopped",
        "run",
        "scope",
    )

    _home: Context

    def __init__(self, run: ClaimedRun, scope: StepScope, owner: Reporting) -> None:
        self.run = run
        self.scope = scope
        self._reporting = owner
        self._noted: Noted | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_begun = self.is_stopped = False
        self.is_left = False
        """Whether it was left behind: its outcome is ignored."""

    # --- for the code that it runs ---------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.scope.step

    @property
    def identity(self) -> str:
        return self.scope.identity

    @property
    def number(self) -> int:
        return self.scope.attempt

    @property
    def noted(self) -> Noted:
        """The attributes and counters that its code has set."""
        if self._noted is None:
            self._noted = Noted()
        return self._noted

    def heartbeat(self) -> None:
        """Raise if the run no longer waits for this attempt: the only way to stop a thread."""
        if self.is_stopped:
            raise asyncio.CancelledError(f"step {self.name!r} was stopped")

    def progress(self, value: Any) -> None:
        """Publish progress, unless another attempt may have taken the place of this one."""
        if not self.is_stopped:
            self._reporting.report_progress(pack(encode(value, path="progress")))

    # --- for the worker that runs it -------------------------------------------------------------

    def start(
        self,
        code: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        context: Context,
        home: Context,
    ) -> None:
        """Run `code` in `context`; callbacks and timers run in `home` and so keep no body alive."""
        self._home = home
        # Not by the loop: its task factory may begin at once, and this may be a body's turn.
        task = asyncio.Task(code, loop=loop, name=self.scope.step, context=context)
        self._task = task
        task.add_done_callback(self._end, context=home)

    @property
    def is_cancelling(self) -> bool:
        return self._task is not None and self._task.cancelling() > 0

    @property
    def is_current(self) -> bool:
        """Whether its own code is running now."""
        return self._task is not None and asyncio.current_task(self._task.get_loop()) is self._task

    def stop(self) -> None:
        """Cancel it, and leave it behind if it does not end."""
        if self._task is not None:
            self._task.cancel()
            self.stops_in(0)

    def stops_in(self, seconds: float) -> None:
        """Leave it behind if it does not end within `seconds` and a grace period."""
        if self._timer is None and self._task is not None:
            loop, grace = self._task.get_loop(), seconds + STOP_SECONDS
            self._timer = loop.call_later(grace, self._leave, context=self._home)

    def on_left(self) -> None:
        """Settle an attempt that was stopped and did not end."""
        raise NotImplementedError

    def on_end(self, error: BaseException | None) -> None:
        """Continue after the code has ended, or was left behind; an error is no outcome of it."""
        raise NotImplementedError

    def code_begins(self) -> None:
        """Expect `code_ends`, which costs less than a callback of the task.

        A task that is cancelled before its first turn never runs its code.
        """
        if self._task is not None:
            self._task.remove_done_callback(self._end)

    def code_ends(self, error: BaseException | None) -> None:
        """Continue: at once after an outcome, and otherwise when the task has ended."""
        task = self._task
        if task is None:
            return  # it was left behind
        if self._timer is not None:
            self._timer.cancel()
        self._task = self._timer = None
        if error is None:
            self.on_end(None)
        else:
            task.get_loop().call_soon(self.on_end, error, context=self._home)

    def _leave(self) -> None:
        task = self._task
        if task is not None and not task.done():  # else `_end` is about to be called
            task.remove_done_callback(self._end)
            task.add_done_callback(_retrieve)
            kind = self.scope.kind
            emit("step.abandoned", self.scope, kind=kind, overrun_seconds=STOP_SECONDS)
            self._forget()
            self.on_left()
            self.on_end(None)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._forget()
        self.on_end(asyncio.CancelledError() if task.cancelled() else task.exception())

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The task and its context refer to this attempt: without the cycle all is freed at once.
        self._task = self._timer = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Look at the error of a task that was left behind, or asyncio would log it."""
    if not task.cancelled():
        task.exception()
