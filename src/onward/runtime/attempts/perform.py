"""Running the code of a step: one attempt, its time limit, and what becomes of it."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.codec import encode, encode_error
from onward.core.instant import duration, show
from onward.core.retry import Again, decide, failure
from onward.engine.payloads import pack
from onward.errors import (
    BadInput,
    Fatal,
    NotInBody,
    PayloadTooLarge,
    Retryable,
    TimedOut,
    Unencodable,
)
from onward.runtime.attempts import thread_call
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.attempts.deadlines import Deadlines
from onward.runtime.attempts.thread_call import ThreadCall
from onward.runtime.context import body_now, step_now
from onward.runtime.running import Running
from onward.telemetry.failpoints import failpoint
from onward.telemetry.interrupts import is_interrupt
from onward.telemetry.scope import StepScope, scope_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Randomness
    from onward.core.retry import AttemptFailure, Retry
    from onward.runtime.attempts.threads import StepThreads
    from onward.runtime.body.calls import StepCall
    from onward.runtime.body.effects import EffectCall
    from onward.runtime.definition import Limits
    from onward.runtime.execution.execution import Execution
    from onward.telemetry.observer import Observer, StepOutcome

LEAVE_SECONDS = 1.0
"""How long a loop that ends may take to end its workers with their runs."""

# An error of these says that the code of the step is wrong, and would be raised again.
_FINAL = (Fatal, NotInBody, PayloadTooLarge, Unencodable)


class Performer:
    """Runs steps for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: StepThreads | None,
        randomness: Randomness,
        limits: Limits,
        now: Callable[[], Instant],
        observer: Observer,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._randomness = randomness
        self._limits = limits
        self._now = now
        self._observer = observer
        # Steps begin in the worker's context, whatever their body has put into its own: on replay
        # a step may begin from elsewhere.
        self._context = copy_context()
        self._context.run(body_now.set, None)
        self._deadlines = Deadlines(loop, self._context)

    def close(self) -> None:
        """Start nothing more."""
        self._deadlines.close()

    def perform(
        self, execution: Execution, call: StepCall, tell: Callable[[bytes], None]
    ) -> Running:
        """Start one attempt of a step; `tell` is given its progress."""
        scope = StepScope(execution.scope, call.name, call.identity, call.attempt)
        attempt = Attempt(
            execution.claimed,
            call.name,
            call.identity,
            call.attempt,
            lambda value: tell(pack(encode(value, path="progress"))),
            scope,
        )
        context = self._context.copy()
        context.run(_enter, attempt)
        if self._observer.steps:
            self._observer.step_begun(scope, context)
        # Not by the loop: its task factory may begin at once, and this is the body's turn.
        attempting = self._attempt(execution, call, attempt)
        task = asyncio.Task(attempting, loop=self._loop, context=context)
        left = partial(self._left, execution, call, attempt)
        attempt.running = Running(task, scope, left, self._context)
        if call.definition.is_async:
            self._begin(execution, call, attempt)
        return attempt.running

    def _begin(self, execution: Execution, call: StepCall, attempt: Attempt) -> None:
        """Let the time of an attempt begin; waiting for a thread is no part of it."""
        call.since = call.since or self._now()
        limit, shown = self._limit(execution, call)
        if limit > 0:
            self._deadlines.watch(
                call, limit / 1_000_000, lambda: _expire(call, attempt.running, shown)
            )
        else:  # it was waited for its turn until its time was over
            call.expired = _expired(call, shown)

    async def _attempt(self, execution: Execution, call: StepCall, attempt: Attempt) -> None:
        try:
            failpoint("step.before")
            result = await self._call(execution, call, attempt)
            failpoint("step.after")
            payload = pack(call.definition.shape.encode_result(result))
            if attempt.noted:
                attempt.noted.kept((0, 0))  # fails here if it is too much
        except asyncio.CancelledError as stopped:
            if attempt.is_left or not await self._stopped(execution, call, attempt, stopped):
                self._ended(attempt, "cancelled")
                raise  # the body stopped waiting, or the worker stops: nothing is recorded
        except BaseException as error:
            if ends_process(error, attempt):
                raise
            self._failed(execution, call, attempt, error)
        else:
            if execution.is_wanted(call) and not attempt.is_left:
                execution.steps.close(call, payload=payload, noted=attempt.noted)
            self._ended(attempt, "succeeded")
        finally:
            if not attempt.is_left:
                self._deadlines.forget(call)

    async def _stopped(
        self,
        execution: Execution,
        call: StepCall,
        attempt: Attempt,
        stopped: asyncio.CancelledError,
    ) -> bool:
        """Record an attempt that was stopped by its time limit or by itself, and by nobody else."""
        attempt.is_stopped = True
        if call.expired is None and not await stopped_itself(execution, call, attempt):
            return False
        self._failed(execution, call, attempt, call.expired or stopped)
        return True

    def _left(self, execution: Execution, call: StepCall, attempt: Attempt) -> None:
        """Go on without an attempt that was stopped and did not end."""
        attempt.is_stopped = True
        self._deadlines.forget(call)
        if call.expired is not None:
            self._failed(execution, call, attempt, call.expired)
        else:
            self._ended(attempt, "cancelled")
        attempt.is_left = True

    async def _call(self, execution: Execution, call: StepCall, attempt: Attempt) -> Any:
        if call.expired is not None:
            raise call.expired
        args, kwargs = call.arguments
        if call.definition.is_async:
            return await call.definition.fn(*args, **kwargs)
        work = partial(copy_context().run, call.definition.fn, *args, **kwargs)
        return await self._in_thread(work, execution, call, attempt)

    async def _in_thread(
        self, work: Callable[[], Any], execution: Execution, call: StepCall, attempt: Attempt
    ) -> Any:
        """Run a step in a thread, which cannot be stopped but by its own will.

        One that took too long is waited for a moment longer, for the next attempt should not meet
        it; one that nobody wants is not.
        """

        def check() -> None:
            attempt.heartbeat()  # it may have waited until nobody wanted it any more
            if (limit := self._limit(execution, call))[0] <= 0:
                raise _expired(call, limit[1])

        running = ThreadCall(
            self._loop, self._threads, attempt.scope, partial(_outcome, work, attempt, check)
        )
        try:
            if not running.begun.done():
                await asyncio.wait([running.begun])
            self._begin(execution, call, attempt)
            await asyncio.wait([running.ended])
        except asyncio.CancelledError:
            attempt.is_stopped = True
            running.leave()
            if attempt.is_begun and call.expired is not None:
                await asyncio.wait([running.ended], timeout=thread_call.GRACE_SECONDS)
            raise
        result, error = running.ended.result()
        if error is not None:
            raise error
        return result

    def _policy(self, execution: Execution, call: StepCall) -> Retry:
        return call.definition.retry or execution.program.retry or self._limits.retry

    def _limit(self, execution: Execution, call: StepCall) -> tuple[Duration, Duration]:
        """Return how long an attempt may take from now on, and what limit it is that says so."""
        own = call.definition.timeout
        limit = self._limits.timeout if own is None else own
        within = self._policy(execution, call).within_length
        if within is None or (left := within - self._elapsed(call)) >= limit:
            return limit, limit
        return left, within

    def _elapsed(self, call: StepCall) -> Duration:
        return 0 if call.since is None else self._now() - call.since

    def _ended(self, attempt: Attempt, outcome: StepOutcome) -> None:
        if self._observer.steps and not attempt.is_left:
            self._observer.step_ended(attempt.scope, outcome)

    def _failed(
        self, execution: Execution, call: StepCall, attempt: Attempt, error: BaseException
    ) -> None:
        if attempt.is_left:
            return
        try:
            facts = _facts(error)
        except BadInput as malformed:  # a step that asks for an impossible wait
            error, facts = malformed, failure(BadInput, fatal=True)
        decision = decide(
            self._policy(execution, call),
            call.attempt,
            facts,
            randomness=self._randomness.random(),
            elapsed=self._elapsed(call),
        )
        written = pack(encode_error(error))
        after = decision.after if isinstance(decision, Again) else None
        outcome: StepOutcome = "failed" if error is not call.expired else "timed_out"
        self._observer.step_ended(attempt.scope, outcome, error, after)
        if not execution.is_wanted(call):
            return
        if isinstance(decision, Again):
            execution.steps.try_again(call, written, decision.after)
        else:
            execution.steps.close(call, error=written)


def _enter(attempt: Attempt) -> None:
    step_now.set(attempt)
    scope_now.set(attempt.scope)


def _expire(call: StepCall, running: Running, limit: Duration) -> None:
    call.expired = _expired(call, limit)
    running.stop()


def _expired(call: StepCall, limit: Duration) -> TimedOut:
    return TimedOut(f"step {call.name!r}", show(limit))


async def stopped_itself(
    execution: Execution, call: StepCall | EffectCall, attempt: Attempt
) -> bool:
    """Say whether code was stopped by itself: nobody else wanted it to.

    When a loop ends it stops all tasks at once, so it takes a moment to know.
    """
    if not attempt.running.is_cancelling:
        return True
    try:
        if execution.is_wanted(call):
            await asyncio.sleep(LEAVE_SECONDS)
    except asyncio.CancelledError:
        return False
    return execution.is_wanted(call)


def ends_process(error: BaseException, attempt: Attempt) -> bool:
    """Return whether an error is no outcome of user code: a signal, or the end of the interpreter.

    The interpreter raises GeneratorExit in coroutines that it discards; no task runs them then.
    """
    if isinstance(error, GeneratorExit):
        return not attempt.running.is_current
    return is_interrupt(error)


def _facts(error: BaseException) -> AttemptFailure:
    if isinstance(error, Retryable):
        after = None if error.after is None else duration(error.after)
        return failure(type(error), retryable=True, after=after)
    return failure(type(error), fatal=_is_final(error))


def _is_final(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_final, error.exceptions))
    return isinstance(error, _FINAL)


def _outcome(
    work: Callable[[], Any], attempt: Attempt, check: Callable[[], None]
) -> tuple[Any, BaseException | None]:
    """Do the work of a step; its error is returned, for a future does not take every one."""
    attempt.is_begun = True
    try:
        check()
        return work(), None
    except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
        return None, error
