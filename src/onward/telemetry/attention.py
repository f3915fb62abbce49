"""Calling `on_attention` for runs that need a person: a decision, or a fix.

The callback runs apart from the runs, one call at a time; what it raises is logged. It is called
at most once and only by this process: the store is the truth, this is a notification.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from onward.core.run import Reason, RunState
from onward.telemetry.error_text import describe
from onward.telemetry.events import emit, where_of
from onward.telemetry.interrupts import raise_interrupt
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.instant import Instant
    from onward.core.ports import Spawn

MAX_WAITING = 1000
"""How many calls may be waiting; beyond that they are dropped, and the log says so."""

CLOSE_SECONDS = 5.0
"""How long an app that closes lets the callback go on."""

CALLING = {
    RunState.PAUSED: frozenset({Reason.DIVERGENCE, Reason.INTERNAL, Reason.PRECONDITION}),
    RunState.FAILED: frozenset({Reason.CRASHED, Reason.INTERNAL}),
}
"""What people are called for. Not for what recovers by itself, nor for what they requested.

People are also called for a failed run that blocks the handler of a pipeline, whatever the reason.
For an effect that waits for approval or a verdict they are called when it begins to, not when its
run has nothing else to do.
"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Attention:
    """A run that needs an operator.

    Attributes:
        run_id: The id of the run.
        uid: The uid of the run.
        workflow: The name of its workflow.
        why: The reason. `approval` or `reconciliation`: one of its effects needs an operator.
            `divergence`, `precondition` or `internal`: the run is paused. `crashed` or `internal`:
            the run failed. `logic` or `transient`: the run failed and blocks its pipeline handler.
        message: What happened. It may contain data from the run.
        at: When it happened.
        effect: The id of the effect that is waiting, if any.
    """

    run_id: str
    uid: str
    workflow: str
    why: str
    message: str
    at: datetime
    effect: str | None = None


OnAttention: TypeAlias = "Callable[[Attention], Awaitable[object] | object]"


def calls_for_attention(state: RunState, reason: Reason | None, *, has_error: bool) -> bool:
    """Say whether a run that came to this needs a human.

    A run that pauses for an approval without an error waits for one of its effects.
    """
    if state is RunState.PAUSED and reason is Reason.APPROVAL:
        return has_error
    return reason in CALLING.get(state, ())


def attention(
    scope: RunScope, why: Reason, message: str, at: Instant, *, effect: str | None = None
) -> Attention:
    """Return what the callback receives."""
    when = _EPOCH + timedelta(microseconds=at)
    return Attention(scope.run, scope.uid, scope.workflow, why.value, message, when, effect)


class AttentionLine:
    """Calls the callback for one run after the other.

    Args:
        callback: Is called on the event loop if it is async, otherwise in a thread.
        spawn: Starts that thread; None means that there are none, and it is called right here.
    """

    def __init__(
        self, callback: OnAttention, spawn: Spawn | None, max_waiting: int = MAX_WAITING
    ) -> None:
        self._callback = callback
        self._is_async = _is_async(callback)
        self._spawn = spawn
        self._max_waiting = max_waiting
        self._waiting: deque[Attention] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_dropping = False
        # Calls begin where the app was made, not in the run whose commit happened to be answered.
        self._context = copy_context()

    def put(self, item: Attention) -> None:
        """Call the callback soon. Called on the event loop; it never waits."""
        if len(self._waiting) >= self._max_waiting:
            if not self._is_dropping:
                self._is_dropping = True
                emit("attention.dropped", _scope(item))
            return
        self._is_dropping = False
        self._waiting.append(item)
        if self._task is None or self._task.done():
            work, context = self._work(), self._context.copy()
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(work, name="onward attention", context=context)

    async def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Wait a while for the calls under way, then drop the rest."""
        task = self._task
        if task is not None and not task.done():
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if self._waiting:
            emit("attention.left", calls=len(self._waiting))
            self._waiting.clear()

    async def _work(self) -> None:
        while self._waiting:
            item = self._waiting.popleft()
            try:
                await self._call(item)
            except asyncio.CancelledError as error:
                if self._task is not None and self._task.cancelling():
                    raise  # the app closes
                _failed(item, error)  # the callback's own: something that it waited for
            except BaseException as error:  # noqa: BLE001 - the next one must be called nevertheless
                raise_interrupt(error)
                _failed(item, error)

    async def _call(self, item: Attention) -> None:
        if self._is_async or self._spawn is None:
            answer = self._callback(item)
        else:
            answer = await self._in_thread(item, self._spawn)
        if inspect.isawaitable(answer):
            await answer

    def _in_thread(self, item: Attention, spawn: Spawn) -> asyncio.Future[object]:
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[object] = loop.create_future()
        context = copy_context()

        def work() -> None:
            answer, error = None, None
            try:
                answer = context.run(self._callback, item)
            except BaseException as raised:  # noqa: BLE001 - in a thread it would be lost
                error = raised
            with suppress(RuntimeError):  # the loop is closed: nothing waits any more
                loop.call_soon_threadsafe(_answer, answered, answer, error)

        spawn(work, name="onward-attention")
        return answered


def _answer(answered: asyncio.Future[object], answer: object, error: BaseException | None) -> None:
    if answered.done():
        return
    if error is None:
        answered.set_result(answer)
    elif isinstance(error, Exception):
        answered.set_exception(error)
    else:  # such as SystemExit, which ends a thread and not the process
        answered.set_exception(RuntimeError(describe(error)).with_traceback(error.__traceback__))


def _is_async(callback: Callable[..., Any]) -> bool:
    call = getattr(callback, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(call)


def _failed(item: Attention, error: BaseException) -> None:
    emit("attention.failed", _scope(item), cause=error, where=where_of(error))


def _scope(item: Attention) -> RunScope:
    return RunScope(item.run_id, item.uid, item.workflow)
