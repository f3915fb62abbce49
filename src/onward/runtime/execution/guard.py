"""Errors end the run in which they are raised, never its worker.

Everything that is done for a run in a callback goes through here. User code may raise anything,
and a row that cannot be read may fail anywhere. Without this, asyncio would log the error, and the
run would hang.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from onward.errors import Undecodable
from onward.runtime.body.runloop import Exited, Spinning, Stuck
from onward.telemetry.interrupts import is_interrupt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from onward.model.commits import Attachments
    from onward.runtime.pipelines.phases import PhaseCall

T = TypeVar("T")


class _Leaving(Protocol):
    def pause(self, misfit: Undecodable) -> None: ...

    def end_failed(self, error: BaseException) -> None: ...

    def complete(self, call: PhaseCall, payload: bytes | None, attached: Attachments) -> None: ...


class GuardedRun(Protocol):
    """A run that ends if something that is done for it fails."""

    is_gone: bool

    @property
    def leaving(self) -> _Leaving: ...

    def break_off(self, error: BaseException) -> None: ...

    def release(self) -> None: ...


def guarded(execution: GuardedRun, work: Callable[[], None]) -> None:
    """Call `work`, and end the run if that fails."""
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - see above
        end_by(execution, error)


def fail(execution: GuardedRun, error: BaseException) -> None:
    """End a run after an error in one of its tasks."""
    if is_interrupt(error):
        _release(execution)  # asyncio has raised it
    else:
        end_by(execution, error)


def on_done(
    execution: GuardedRun, awaited: asyncio.Future[T], then: Callable[[asyncio.Future[T]], None]
) -> None:
    """Call `then` once something that a run waits for is done, and end the run if that fails."""

    def go_on(done: asyncio.Future[T]) -> None:
        # Retrieved even if `then` does not, or asyncio would log it.
        error = None if done.cancelled() else done.exception()
        if error is not None and is_interrupt(error):
            _release(execution)  # asyncio has raised it
        else:
            guarded(execution, partial(then, done))

    awaited.add_done_callback(go_on)


def end_by(execution: GuardedRun, error: BaseException) -> None:
    """End a run after an error in work for it.

    Raises:
        BaseException: the error, if it is that of a signal handler, which ends the process.
    """
    if is_interrupt(error):
        _release(execution)
        raise error
    if execution.is_gone:
        return
    if isinstance(error, Exited):
        error = error.error
    elif isinstance(error, Undecodable):
        execution.leaving.pause(error)
        return
    elif isinstance(error, Exception) and not isinstance(error, Spinning | Stuck):
        execution.break_off(error)
        return
    try:
        execution.leaving.end_failed(error)
    except Exception as bug:  # noqa: BLE001 - see above
        execution.break_off(bug)


def _release(execution: GuardedRun) -> None:
    """Release the run: the process stops, which is no failure of the run."""
    if not execution.is_gone:
        execution.release()
