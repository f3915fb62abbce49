"""Calls the handler of an effect, or its reconciler, and reports the outcome to the ledger."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import decode_error, encode_error, read_error
from onward.core.effect import Answer
from onward.core.instant import duration, show
from onward.core.retry import failure
from onward.engine.payloads import pack
from onward.errors import NotApplied, NoThread, TimedOut
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.attempts.perform import ends_process, stopped_itself
from onward.runtime.attempts.send_window import InTime
from onward.runtime.attempts.thread_call import ThreadCall
from onward.runtime.body.effects import Applied, Sending, Unknown, sending_now
from onward.runtime.context import body_now, step_now
from onward.telemetry.events import emit
from onward.telemetry.interrupts import raise_interrupt
from onward.telemetry.scope import StepScope, scope_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from contextvars import Context

    from onward.core.effect import Window
    from onward.core.instant import Duration
    from onward.core.ports import Clock
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.threads import StepThreads
    from onward.runtime.body.calls import Call
    from onward.runtime.body.effects import EffectCall
    from onward.telemetry.observer import Observer, StepOutcome
    from onward.telemetry.scope import RunScope


class EffectOutcomes(Protocol):
    """Takes note of what happened to an effect."""

    def returned(self, call: EffectCall, result: bytes | None, error: bytes | None) -> None: ...

    def not_started(self, call: EffectCall) -> None: ...

    def not_applied(
        self, call: EffectCall, after: Duration | None, names: tuple[str, ...], error: bytes
    ) -> Duration | None: ...

    def lost(self, call: EffectCall, error: bytes) -> Duration | None: ...

    def answered(self, call: EffectCall, answer: Answer, result: bytes | None) -> None: ...


class EffectOwner(Protocol):
    """The run for which an effect is sent."""

    claimed: ClaimedRun
    scope: RunScope

    @property
    def ledger(self) -> EffectOutcomes: ...

    def is_wanted(self, call: Call) -> bool: ...


class EffectAttempt(Attempt):
    """One send of an effect, or one question to its reconciler."""

    __slots__ = ("_left", "ended")

    def __init__(
        self,
        run: ClaimedRun,
        scope: StepScope,
        report: Callable[[bytes], None],
        ended: asyncio.Future[None],
    ) -> None:
        super().__init__(run, scope, report)
        self.ended = ended
        self._left: Callable[[], None] | None = None

    def when_left(self, then: Callable[[], None]) -> None:
        self._left = then

    def on_left(self) -> None:
        if self._left is not None:
            self._left()

    def on_end(self, error: BaseException | None) -> None:
        self._left = None
        if error is None:
            self.ended.set_result(None)
        elif isinstance(error, asyncio.CancelledError):
            self.ended.cancel()
        else:
            self.ended.set_exception(error)


class Sender:
    """Calls the handlers of effects for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: StepThreads | None,
        clock: Clock,
        observer: Observer,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._clock = clock
        self._observer = observer
        self._context = copy_context()
        self._context.run(body_now.set, None)

    def send(
        self,
        execution: EffectOwner,
        call: EffectCall,
        window: Window,
        tell: Callable[[bytes], None],
    ) -> EffectAttempt:
        """Make the call, if this machine's clock says that it may still begin."""
        attempt, context = self._begin(execution, call, tell)
        key = call.key(execution.claimed)
        context.run(sending_now.set, Sending(call.name, key, window.send_by, self._clock))
        call.noted = attempt.noted
        if self._observer.steps:
            self._observer.step_begun(attempt.scope, context)
        sending = self._send(execution, call, attempt, window)
        return self._go(sending, execution, call, attempt, context)

    def _begin(
        self, execution: EffectOwner, call: EffectCall, tell: Callable[[bytes], None]
    ) -> tuple[EffectAttempt, Context]:
        """Return a context in which code is part of the run as that of a step is."""
        number = call.effect.attempt
        scope = StepScope(execution.scope, call.name, call.identity, number, "effect")
        attempt = EffectAttempt(execution.claimed, scope, tell, self._loop.create_future())
        context = self._context.copy()
        context.run(step_now.set, attempt)
        context.run(scope_now.set, scope)
        return attempt, context

    async def _send(
        self, execution: EffectOwner, call: EffectCall, attempt: Attempt, window: Window
    ) -> None:
        ledger = execution.ledger
        try:
            result = await self._call(call, attempt, window)
            if attempt.is_left:
                return
        except _NotStarted:
            ledger.not_started(call)
            self._ended(attempt, "cancelled")
        except NotApplied as not_applied:
            if attempt.is_left:
                return
            fact = (_wait(not_applied), failure(type(not_applied)).names)
            again = ledger.not_applied(call, *fact, pack(_known(not_applied)))
            self._ended(attempt, "failed", not_applied, again)
        except asyncio.CancelledError as stopped:
            if attempt.is_left or not await stopped_itself(execution, call, attempt):
                self._ended(attempt, "cancelled")
                raise  # the worker stops: the next owner of the run finds it in flight
            self._lost(execution, call, attempt, stopped)
        except BaseException as error:
            if ends_process(error, attempt):
                raise
            self._lost(execution, call, attempt, error)
        else:
            self._returned(execution, call, attempt, result)
        finally:
            attempt.is_stopped = True

    def _lost(
        self, execution: EffectOwner, call: EffectCall, attempt: Attempt, error: BaseException
    ) -> None:
        if attempt.is_left:
            return
        is_late = isinstance(error, TimedOut) and error.__cause__ is not None
        again = execution.ledger.lost(call, pack(encode_error(error)))
        self._ended(attempt, "timed_out" if is_late else "failed", error, again)

    def _returned(
        self, execution: EffectOwner, call: EffectCall, attempt: Attempt, result: Any
    ) -> None:
        try:
            kept = pack(call.definition.shape.encode_result(result))
        except BaseException as error:  # noqa: BLE001 - it happened, though its result cannot be kept
            raise_interrupt(error)
            execution.ledger.returned(call, None, pack(encode_error(error)))
            self._ended(attempt, "failed", error)
        else:
            execution.ledger.returned(call, kept, None)
            self._ended(attempt, "succeeded")

    def _ended(
        self,
        attempt: Attempt,
        outcome: StepOutcome,
        error: BaseException | None = None,
        again: Duration | None = None,
    ) -> None:
        if (self._observer.steps or error is not None) and not attempt.is_left:
            self._observer.step_ended(attempt.scope, outcome, error, again)

    async def _call(self, call: EffectCall, attempt: Attempt, window: Window) -> Any:
        args, kwargs = call.arguments()
        limit = call.definition.timeout
        handler = partial(call.definition.fn, *args, **kwargs)
        if call.definition.is_async:
            attempt.stops_in(limit / 1_000_000)
            async with self._limited(f"effect {call.name!r}", limit):
                self._check_start(window)
                return await self._handled(handler)
        return await self._in_thread(call, attempt, window, handler)

    async def _handled(self, handler: Callable[[], Any]) -> Any:
        sending = sending_now.get()
        assert sending is not None
        return await InTime(handler(), sending)

    @asynccontextmanager
    async def _limited(self, what: str, limit: Duration) -> AsyncIterator[None]:
        """Let something take so long at most.

        Raises:
            TimedOut: it took longer.
        """
        try:
            async with asyncio.timeout(limit / 1_000_000) as clock:
                yield
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise TimedOut(what, show(limit)) from error

    async def _in_thread(
        self, call: EffectCall, attempt: Attempt, window: Window, handler: Callable[[], Any]
    ) -> Any:
        """Call a handler in a thread, if one is free before it is too late to begin."""

        def start() -> Any:
            self._check_start(window)
            return handler()

        try:
            running = self._thread_call(attempt, start)
        except NoThread as refused:
            raise NotApplied(str(refused)) from refused
        try:
            if not running.begun.done():
                left = window.start_by - self._clock.monotonic()
                await asyncio.wait([running.begun], timeout=max(0, left) / 1_000_000)
            if not running.begun.done() and running.withdraw():
                raise _NotStarted
            async with self._limited(f"effect {call.name!r}", call.definition.timeout):
                return _result(await asyncio.shield(running.ended))
        except NoThread as refused:  # the last thread was lost while it waited for one
            raise NotApplied(str(refused)) from refused
        finally:
            running.leave()

    def _check_start(self, window: Window) -> None:
        if self._clock.monotonic() > window.start_by:
            # The window passed meanwhile: an operator may have decided by now, so it is not sent.
            raise _NotStarted

    def _thread_call(self, attempt: Attempt, work: Callable[[], Any]) -> ThreadCall:
        work = partial(copy_context().run, _outcome, work)
        return ThreadCall(self._loop, self._threads, attempt.scope, work)

    def ask(
        self, execution: EffectOwner, call: EffectCall, tell: Callable[[bytes], None]
    ) -> EffectAttempt:
        """Ask the reconciler for the outcome of a call."""
        attempt, context = self._begin(execution, call, tell)
        asking = self._ask(execution, call, attempt)
        return self._go(asking, execution, call, attempt, context, is_asking=True)

    def _go(
        self,
        work: Coroutine[Any, Any, None],
        execution: EffectOwner,
        call: EffectCall,
        attempt: EffectAttempt,
        context: Context,
        *,
        is_asking: bool = False,
    ) -> EffectAttempt:
        attempt.when_left(partial(self._left, execution, call, attempt, is_asking=is_asking))
        attempt.start(work, self._loop, context, self._context)
        return attempt

    def _left(
        self, execution: EffectOwner, call: EffectCall, attempt: Attempt, *, is_asking: bool
    ) -> None:
        """Go on without code that was stopped and did not end."""
        if is_asking:
            execution.ledger.answered(call, Answer.UNKNOWN, None)
        else:
            error = TimedOut(f"effect {call.name!r}", show(call.definition.timeout))
            error.__cause__ = TimeoutError()
            self._lost(execution, call, attempt, error)
        attempt.is_stopped = attempt.is_left = True

    async def _ask(self, execution: EffectOwner, call: EffectCall, attempt: Attempt) -> None:
        answer, result = Answer.UNKNOWN, None
        try:
            said = await self._reconcile(execution, call, attempt)
            if isinstance(said, Applied):
                result = pack(call.definition.shape.encode_result(said.result))
                answer = Answer.APPLIED
            elif isinstance(said, NotApplied) or said is NotApplied:
                answer = Answer.NOT_APPLIED
            elif not (isinstance(said, Unknown) or said is Unknown):
                _unanswered(execution, call, TypeError(f"it returned {type(said).__qualname__}"))
        except NotApplied:
            answer = Answer.NOT_APPLIED
        except asyncio.CancelledError as stopped:
            if attempt.is_left or not await stopped_itself(execution, call, attempt):
                raise
            _unanswered(execution, call, stopped)
        except BaseException as error:
            if ends_process(error, attempt):
                raise
            _unanswered(execution, call, error)
        if not attempt.is_left:
            execution.ledger.answered(call, answer, result)

    async def _reconcile(self, execution: EffectOwner, call: EffectCall, attempt: Attempt) -> Any:
        reconcile = call.definition.reconcile
        assert reconcile is not None
        args, kwargs = call.arguments()
        work = partial(reconcile, *args, key=call.key(execution.claimed), **kwargs)
        limit = call.definition.timeout / 1_000_000
        if inspect.iscoroutinefunction(reconcile):
            attempt.stops_in(limit)
            async with asyncio.timeout(limit):
                return await work()
        running = self._thread_call(attempt, work)
        try:
            await asyncio.wait([running.begun])  # its time begins when a thread is free
            attempt.stops_in(limit)
            async with asyncio.timeout(limit):
                said = _result(await asyncio.shield(running.ended))
                return await said if inspect.isawaitable(said) else said
        finally:
            running.leave()


class _NotStarted(Exception):
    """A handler did not begin in time, and will not."""


def _result(outcome: tuple[Any, BaseException | None]) -> Any:
    result, error = outcome
    if error is not None:
        raise error
    return result


def _unanswered(execution: EffectOwner, call: EffectCall, error: BaseException) -> None:
    """Report that a reconciler failed, which to the ledger is the same as `Unknown`."""
    key = call.key(execution.claimed)
    emit("effect.unanswered", execution.scope, cause=error, effect=call.name, key=key)


def _wait(error: NotApplied) -> Duration | None:
    try:
        return None if error.after is None else duration(error.after)
    except Exception:  # noqa: BLE001 - an impossible wait must not make it uncertain
        return None


def _known(error: NotApplied) -> Any:
    """Return the error as the body gets it: a `NotApplied`, whatever of its type is known there."""
    kept = encode_error(error)
    if not isinstance(decode_error(kept), NotApplied):
        plain = NotApplied(f"{type(error).__qualname__}: {read_error(kept).message}")
        plain.__cause__ = error
        kept = encode_error(plain)
    return kept


def _outcome(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """Do it in a thread; its error is returned, for a future does not take every one."""
    try:
        return work(), None
    except BaseException as error:  # noqa: BLE001 - whatever it raises is its outcome
        return None, error
