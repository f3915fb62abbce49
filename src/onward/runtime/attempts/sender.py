"""Calls the handler of an effect, or its reconciler, and returns what that says as a fact."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onward.codec import decode_error, encode_error, read_error
from onward.core.decision import Moved
from onward.core.effect import (
    Answer,
    HandlerReturned,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    advance,
)
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
from onward.telemetry.error_text import type_name
from onward.telemetry.events import emit
from onward.telemetry.interrupts import is_interrupt, raise_interrupt
from onward.telemetry.scope import StepScope, scope_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextvars import Context

    from onward.core.effect import Fact, Window
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.threads import StepThreads
    from onward.runtime.body.calls import Call
    from onward.runtime.body.effects import EffectCall
    from onward.telemetry.observer import Observer, StepOutcome
    from onward.telemetry.scope import RunScope

_TIMEOUT_ADVICE = (
    "Its outcome is uncertain: the reconciler will be asked, or an operator will decide. To "
    "allow more time, raise timeout="
)


class EffectReply(NamedTuple):
    """What is known of an effect after a send, or after its reconciler was asked."""

    fact: Fact
    at: Instant
    """The time that the fact is about."""
    result: bytes | None = None
    error: bytes | None = None
    """What the handler raised, or why the result of an applied effect cannot be kept."""
    error_type: str | None = None
    """The type of what the handler or the reconciler raised."""


class EffectOwner(Protocol):
    """The run for which an effect is sent."""

    @property
    def run(self) -> ClaimedRun: ...

    @property
    def scope(self) -> RunScope: ...

    def is_wanted(self, call: Call) -> bool:
        """Return whether the run is here and still waits for this call."""
        ...

    def report_progress(self, value: bytes) -> None: ...


class Sender:
    """Calls the handlers of effects for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: StepThreads | None,
        clock: Clock,
        randomness: Callable[[], float],
        now: Callable[[], Instant],
        observer: Observer,
    ) -> None:
        self.loop = loop
        self.threads = threads
        self.clock = clock
        self.randomness = randomness
        self.now = now
        self.observer = observer
        self.context = copy_context()
        self.context.run(body_now.set, None)

    def send(self, owner: EffectOwner, call: EffectCall, window: Window) -> EffectAttempt:
        """Call the handler, if this machine's clock says that it may still begin."""
        attempt = SendAttempt(self, owner, call, window)
        attempt.begin()
        return attempt

    def reconcile(self, owner: EffectOwner, call: EffectCall) -> EffectAttempt:
        """Ask the reconciler for the outcome of a send."""
        attempt = ReconcileAttempt(self, owner, call)
        attempt.begin()
        return attempt


class EffectAttempt(Attempt):
    """One call of a handler or a reconciler."""

    __slots__ = ("_call", "_owner", "_sender", "reply")

    def __init__(self, sender: Sender, owner: EffectOwner, call: EffectCall) -> None:
        number = call.effect.attempt
        scope = StepScope(owner.scope, call.name, call.identity, number, "effect")
        super().__init__(owner.run, scope, owner)
        self._sender = sender
        self._owner = owner
        self._call = call
        self.reply: asyncio.Future[EffectReply] = sender.loop.create_future()
        """Cancelled if the worker stops: then the next owner of the run finds out."""

    def begin(self) -> None:
        """Run its code in a context in which it is part of the run, as that of a step is."""
        sender = self._sender
        context = sender.context.copy()
        context.run(step_now.set, self)
        context.run(scope_now.set, self.scope)
        self._prepare(context)
        self._call.running = self
        self.start(self._run(), sender.loop, context, sender.context)

    async def _run(self) -> None:
        try:
            reply = await self._outcome()
        except asyncio.CancelledError as stopped:
            if self.is_left or not await stopped_itself(self._owner, self._call, self):
                self._report_end("cancelled")
                raise
            reply = self._unknown(stopped)
        except BaseException as error:
            if ends_process(error, self):
                raise
            reply = self._unknown(error)
        finally:
            self.is_stopped = True
        if not self.is_left:
            self.reply.set_result(reply)

    def on_left(self) -> None:
        error = _timed_out(self._call.name, self._call.definition.timeout)
        error.__cause__ = TimeoutError()
        self.reply.set_result(self._unknown(error))
        self.is_stopped = self.is_left = True

    def on_end(self, error: BaseException | None) -> None:
        if self._call.running is self:
            self._call.running = None
        if self.reply.done():
            return
        if error is None or isinstance(error, asyncio.CancelledError):
            self.reply.cancel()
        elif is_interrupt(error):
            self.reply.set_exception(error)
        else:
            self.reply.set_result(self._unknown(error))

    def _prepare(self, context: Context) -> None:
        """Set what else its code sees."""

    async def _outcome(self) -> EffectReply:
        raise NotImplementedError

    def _unknown(self, error: BaseException) -> EffectReply:
        """Return the reply if the code failed, or did not end: no outcome is known."""
        raise NotImplementedError

    def _report_end(
        self,
        outcome: StepOutcome,
        error: BaseException | None = None,
        again: Duration | None = None,
        *,
        is_asked: bool = False,
    ) -> None:
        """Report the end of the code."""

    def _thread_call(self, work: Callable[[], Any]) -> ThreadCall:
        work = partial(copy_context().run, _outcome, work)
        return ThreadCall(self._sender.loop, self._sender.threads, self.scope, work)


class SendAttempt(EffectAttempt):
    """One send of an effect."""

    __slots__ = ("_window",)

    def __init__(
        self, sender: Sender, owner: EffectOwner, call: EffectCall, window: Window
    ) -> None:
        super().__init__(sender, owner, call)
        self._window = window
        call.noted = self.noted

    def _prepare(self, context: Context) -> None:
        key = self._call.key(self.run)
        sending = Sending(self._call.name, key, self._window.send_by, self._sender.clock)
        context.run(sending_now.set, sending)
        if self._sender.observer.steps:
            self._sender.observer.step_begun(self.scope, context)

    async def _outcome(self) -> EffectReply:
        try:
            result = await self._handle()
        except _NotStarted:
            self._report_end("cancelled")
            return EffectReply(NotStarted(), self._sender.now())
        except NotApplied as refused:
            names = failure(type(refused)).names
            randomness, elapsed = self._sender.randomness(), self._elapsed()
            fact = RaisedNotApplied(_wait(refused), randomness, names, elapsed)
            return self._failed(fact, refused, pack(_known(refused)))
        try:
            kept = pack(self._call.definition.shape.encode_result(result))
        except BaseException as error:  # noqa: BLE001 - it happened, though its result cannot be kept
            raise_interrupt(error)
            return self._failed(HandlerReturned(), error, pack(encode_error(error)))
        self._report_end("succeeded")
        return EffectReply(HandlerReturned(), self._sender.now(), kept)

    def _unknown(self, error: BaseException) -> EffectReply:
        fact = Lost(self._sender.randomness(), self._elapsed())
        is_late = isinstance(error, TimedOut) and error.__cause__ is not None
        outcome: StepOutcome = "timed_out" if is_late else "failed"
        return self._failed(fact, error, pack(encode_error(error)), outcome)

    def _failed(
        self, fact: Fact, error: BaseException, encoded: bytes, outcome: StepOutcome = "failed"
    ) -> EffectReply:
        call, kind = self._call, type_name(error)
        reply = EffectReply(fact, self._sender.now(), error=encoded, error_type=kind)
        decision = advance(call.effect, fact, call.terms, now=reply.at)
        if not (isinstance(decision, Moved) and self._owner.is_wanted(call)):
            self._report_end(outcome, error)
        elif call.is_reconciled_in(decision.to):
            self._report_end(outcome, error, is_asked=True)
        else:
            due = decision.to.due
            self._report_end(outcome, error, None if due is None else max(0, due - reply.at))
        return reply

    def _elapsed(self) -> Duration:
        return self._call.elapsed(self._sender.now())

    def _report_end(
        self,
        outcome: StepOutcome,
        error: BaseException | None = None,
        again: Duration | None = None,
        *,
        is_asked: bool = False,
    ) -> None:
        observer = self._sender.observer
        if (observer.steps or error is not None) and not self.is_left:
            observer.step_ended(self.scope, outcome, error, again, is_asked=is_asked)

    async def _handle(self) -> Any:
        call = self._call
        args, kwargs = call.arguments()
        limit = call.definition.timeout
        handler = partial(call.definition.fn, *args, **kwargs)
        if not call.definition.is_async:
            return await self._in_thread(handler)
        self.stops_in(limit / 1_000_000)
        async with _limited(call.name, limit):
            self._check_start()
            sending = sending_now.get()
            assert sending is not None
            return await InTime(handler(), sending)

    async def _in_thread(self, handler: Callable[[], Any]) -> Any:
        """Call a handler in a thread, if one is free before it is too late to begin."""

        def start() -> Any:
            self._check_start()
            return handler()

        call = self._call
        try:
            running = self._thread_call(start)
        except NoThread as refused:
            raise NotApplied(str(refused)) from refused
        try:
            if not running.begun.done():
                left = self._window.start_by - self._sender.clock.monotonic()
                await asyncio.wait([running.begun], timeout=max(0, left) / 1_000_000)
            if not running.begun.done() and running.withdraw():
                raise _NotStarted
            async with _limited(call.name, call.definition.timeout):
                return _result(await asyncio.shield(running.ended))
        except NoThread as refused:  # the last thread was lost while it waited for one
            raise NotApplied(str(refused)) from refused
        finally:
            running.leave()

    def _check_start(self) -> None:
        if self._sender.clock.monotonic() > self._window.start_by:
            # The window passed meanwhile: an operator may have decided by now, so it is not sent.
            raise _NotStarted


class ReconcileAttempt(EffectAttempt):
    """One question to the reconciler of an effect."""

    __slots__ = ("_asked_at",)

    def __init__(self, sender: Sender, owner: EffectOwner, call: EffectCall) -> None:
        super().__init__(sender, owner, call)
        # What the reconciler looks at may change before it answers.
        self._asked_at = sender.now()

    async def _outcome(self) -> EffectReply:
        try:
            said = await self._ask()
        except NotApplied:
            return self._answer(Answer.NOT_APPLIED)
        if isinstance(said, Applied):
            result = pack(self._call.definition.shape.encode_result(said.result))
            return self._answer(Answer.APPLIED, result)
        if isinstance(said, NotApplied) or said is NotApplied:
            return self._answer(Answer.NOT_APPLIED)
        if not (isinstance(said, Unknown) or said is Unknown):
            found = type(said).__qualname__
            fact = f"the reconciler returned {found}, not Applied, NotApplied or Unknown"
            return self._unknown(TypeError(fact))
        return self._answer(Answer.UNKNOWN)

    def _unknown(self, error: BaseException) -> EffectReply:
        self._emit_unanswered(error)
        return self._answer(Answer.UNKNOWN)._replace(error_type=type_name(error))

    def _answer(self, answer: Answer, result: bytes | None = None) -> EffectReply:
        fact = Reconciled(answer, self._sender.randomness())
        return EffectReply(fact, self._asked_at, result)

    def _emit_unanswered(self, error: BaseException) -> None:
        """Report that a reconciler failed, which to the ledger is the same as `Unknown`."""
        call = self._call
        key = call.key(self.run)
        emit("effect.unanswered", self._owner.scope, cause=error, effect=call.name, key=key)

    async def _ask(self) -> Any:
        call = self._call
        reconcile = call.definition.reconcile
        assert reconcile is not None
        args, kwargs = call.arguments()
        work = partial(reconcile, *args, key=call.key(self.run), **kwargs)
        limit = call.definition.timeout / 1_000_000
        if inspect.iscoroutinefunction(reconcile):
            self.stops_in(limit)
            async with asyncio.timeout(limit):
                return await work()
        running = self._thread_call(work)
        try:
            await asyncio.wait([running.begun])  # its time begins when a thread is free
            self.stops_in(limit)
            async with asyncio.timeout(limit):
                said = _result(await asyncio.shield(running.ended))
                return await said if inspect.isawaitable(said) else said
        finally:
            running.leave()


@asynccontextmanager
async def _limited(effect: str, limit: Duration) -> AsyncIterator[None]:
    """Let an attempt of an effect take so long at most.

    Raises:
        TimedOut: it took longer.
    """
    try:
        async with asyncio.timeout(limit / 1_000_000) as clock:
            yield
    except TimeoutError as error:
        if not clock.expired():
            raise
        raise _timed_out(effect, limit) from error


def _timed_out(effect: str, limit: Duration) -> TimedOut:
    return TimedOut(f"effect {effect!r}", show(limit), _TIMEOUT_ADVICE)


class _NotStarted(Exception):
    """A handler did not begin in time, and will not."""


def _result(outcome: tuple[Any, BaseException | None]) -> Any:
    result, error = outcome
    if error is not None:
        raise error
    return result


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
