"""Running the code of a step: one attempt, its time limit, and its outcome."""

from __future__ import annotations

import asyncio
import sys
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import encode_error
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
from onward.model.commits import NOTHING_ATTACHED, Attachments
from onward.runtime.attempts import thread_call
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.attempts.cached import CachedCall
from onward.runtime.attempts.deadlines import Deadlines
from onward.runtime.attempts.thread_call import ThreadCall
from onward.runtime.body.calls import StepCall
from onward.runtime.context import body_now, step_now
from onward.telemetry.failpoints import failpoint
from onward.telemetry.interrupts import is_interrupt
from onward.telemetry.scope import StepScope, scope_now

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Randomness
    from onward.core.retry import AttemptFailure, Retry
    from onward.core.run import Reason
    from onward.engine.notes import Noted
    from onward.model.runs import ClaimedRun
    from onward.runtime.attempts.cached import Recall
    from onward.runtime.attempts.threads import StepThreads
    from onward.runtime.body.calls import Call
    from onward.runtime.definition import Limits
    from onward.runtime.pipelines.phases import PhaseCall
    from onward.telemetry.observer import Observer, StepOutcome
    from onward.telemetry.scope import RunScope

LEAVE_SECONDS = 1.0
"""How long a loop that ends may take to end its workers with their runs."""

# These errors say that the code of the step is wrong: it would raise them again.
_FINAL = (Fatal, NotInBody, PayloadTooLarge, Unencodable)


class StepOwner(Protocol):
    """The run for which a step is performed."""

    run: ClaimedRun
    scope: RunScope
    retry: Retry | None
    """How often steps are tried that do not say so themselves."""

    def is_wanted(self, call: Call) -> bool:
        """Return whether the body still waits for this call."""
        ...

    def report_progress(self, value: bytes) -> None: ...

    def close_step(
        self,
        call: StepCall,
        *,
        payload: bytes | None = None,
        error: bytes | None = None,
        noted: Noted | None = None,
        attached: Attachments = NOTHING_ATTACHED,
    ) -> None:
        """Record the outcome of a step, if the body still waits for it, with what it adds."""
        ...

    def retry_step(self, call: StepCall, error: bytes, after: Duration) -> None:
        """Record a failed attempt, if the body still waits for it, and try again later."""
        ...

    def pause_phase(self, call: PhaseCall, error: bytes, reason: Reason) -> None:
        """Record that a phase of a handler needs an operator, and pause the run."""
        ...

    def step_ended(self, call: StepCall, attempt: Attempt, error: BaseException | None) -> None:
        """Continue after an attempt: its outcome is being recorded, unless there is an error."""
        ...


class Performer:
    """Runs the steps of a worker: async ones on its loop, others in its threads."""

    def __init__(  # noqa: PLR0913 - each is a part of the worker
        self,
        loop: asyncio.AbstractEventLoop,
        threads: StepThreads | None,
        randomness: Randomness,
        limits: Limits,
        now: Callable[[], Instant],
        observer: Observer,
        phase: type[StepAttempt],
        recall: Recall,
    ) -> None:
        self.recall = recall
        self._phase = phase  # how phases of handlers are performed
        self.loop = loop
        self.threads = threads
        self.randomness = randomness
        self.limits = limits
        self.now = now
        self.observer = observer
        # Steps begin in the worker's context, not in that of their body: on replay a step may be
        # started from somewhere else.
        self.context = copy_context()
        self.context.run(body_now.set, None)
        self.deadlines = Deadlines(loop, self.context)

    def close(self) -> None:
        self.deadlines.close()

    def _kind(self, call: StepCall) -> type[StepAttempt]:
        return CachedAttempt if call.definition.cache is not None else self._phase

    def perform(self, owner: StepOwner, call: StepCall) -> StepAttempt:
        """Start one attempt of a step."""
        is_plain = call.definition.cache is None and type(call) is StepCall
        kind = StepAttempt if is_plain else self._kind(call)
        attempt = kind(self, owner, call)
        context = self.context.copy()
        if self.observer.steps:
            self.observer.step_begun(attempt.scope, context)
        attempt.start(attempt.run_step(), self.loop, context, self.context)
        if call.definition.is_async:
            attempt.begin()
        return attempt


class StepAttempt(Attempt):
    """One attempt of a step."""

    __slots__ = ("_attached", "_began", "_call", "_limit", "_owner", "_performer")

    def __init__(self, performer: Performer, owner: StepOwner, call: StepCall) -> None:
        scope = StepScope(owner.scope, call.name, call.identity, call.attempt)
        super().__init__(owner.run, scope, owner)
        self._performer = performer
        self._owner = owner
        self._call = call
        self._limit: Duration = 0
        self._began: float | None = None
        self._attached = NOTHING_ATTACHED

    def begin(self) -> None:
        """Start its time limit; waiting for a thread does not count."""
        self._began = now = self._performer.loop.time()
        left, self._limit = self._time_left()
        if left > 0:
            self._performer.deadlines.watch(self, left / 1_000_000, now)
        else:  # it waited for its turn until its time was over
            self._call.expired = self._timed_out()

    async def run_step(self) -> None:
        call = self._call
        try:
            self.code_begins()
            step_now.set(self)
            scope_now.set(self.scope)
            failpoint("step.before")
            result = await self._work()
            failpoint("step.after")
            payload = self._encoded(result)
            if self._noted:
                self._noted.kept((0, 0))  # fails here if it is too much
        except asyncio.CancelledError as stopped:
            if self.is_left or not await self._stopped(stopped):
                self._report_end("cancelled")
                raise  # the body stopped waiting, or the worker stops: nothing is recorded
        except BaseException as error:
            if ends_process(error, self):
                raise
            self._failed(error)
        else:
            if not self.is_left:
                call.took = self._took()
                self._owner.close_step(
                    call, payload=payload, noted=self._noted, attached=self._attached
                )
            if self._performer.observer.steps:
                self._report_end("succeeded")
        finally:
            if not self.is_left:
                self._performer.deadlines.forget(self)
            self.code_ends(sys.exception())

    def _work(self) -> Awaitable[Any]:
        """Call the function of the step.

        Raises:
            TimedOut: its time was over before it could begin.
        """
        call = self._call
        if call.expired is not None:
            raise call.expired
        args, kwargs = call.arguments
        if call.definition.is_async:
            work: Awaitable[Any] = call.definition.fn(*args, **kwargs)
            return work
        return self._in_thread(partial(call.definition.fn, *args, **kwargs))

    def _encoded(self, result: Any) -> bytes:
        return pack(self._call.definition.shape.encode_result(result))

    def expire(self) -> None:
        """Stop it: its time is over."""
        self._call.expired = self._timed_out()
        self.stop()

    async def _stopped(self, stopped: asyncio.CancelledError) -> bool:
        """Record an attempt that its time limit or its own code has stopped; say if one did."""
        self.is_stopped = True
        expired = self._call.expired
        if expired is None and not await stopped_itself(self._owner, self._call, self):
            return False
        self._failed(self._call.expired or stopped)
        return True

    def on_left(self) -> None:
        self.is_stopped = True
        self._performer.deadlines.forget(self)
        if self._call.expired is not None:
            self._failed(self._call.expired)
        else:
            self._report_end("cancelled")
        self.is_left = True

    def on_end(self, error: BaseException | None) -> None:
        self._owner.step_ended(self._call, self, error)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Run a step in a thread, which only its own code can stop.

        One that took too long is waited for a moment longer, so that the next attempt does not
        meet it; one that the body no longer wants is not.
        """

        def check() -> None:
            self.heartbeat()  # it may have waited until the body no longer wanted it
            left, self._limit = self._time_left()
            if left <= 0:
                raise self._timed_out()

        performer = self._performer
        work = partial(copy_context().run, work)
        running = ThreadCall(
            performer.loop, performer.threads, self.scope, partial(_outcome, work, self, check)
        )
        try:
            if not running.begun.done():
                await asyncio.wait([running.begun])
            self.begin()
            await asyncio.wait([running.ended])
        except asyncio.CancelledError:
            self.is_stopped = True
            running.leave()
            if self.is_begun and self._call.expired is not None:
                await asyncio.wait([running.ended], timeout=thread_call.GRACE_SECONDS)
            raise
        result, error = running.ended.result()
        if error is not None:
            raise error
        return result

    def _time_left(self) -> tuple[Duration, Duration]:
        """Return how long the attempt may take from now on, and the limit that says so."""
        limits, definition = self._performer.limits, self._call.definition
        limit = limits.timeout if definition.timeout is None else definition.timeout
        within = (definition.retry or self._owner.retry or limits.retry).within_length
        if within is None:
            return limit, limit
        self._call.since = self._call.since or self._performer.now()
        left = within - self._elapsed()
        return (limit, limit) if left >= limit else (left, within)

    def _took(self) -> Duration:
        """Return how long it has taken; it has not begun if it waits for a thread."""
        return 0 if self._began is None else int((self._performer.loop.time() - self._began) * 1e6)

    def _elapsed(self) -> Duration:
        return 0 if self._call.since is None else self._performer.now() - self._call.since

    def _timed_out(self) -> TimedOut:
        return TimedOut(f"step {self._call.name!r}", show(self._limit))

    def _report_end(self, outcome: StepOutcome) -> None:
        if self._performer.observer.steps and not self.is_left:
            self._performer.observer.step_ended(self.scope, outcome)

    def _failed(self, error: BaseException) -> None:
        if self.is_left:
            return
        try:
            facts = _facts(error)
        except BadInput as malformed:  # a step that asks for an impossible wait
            error, facts = malformed, failure(BadInput, fatal=True)
        call, performer = self._call, self._performer
        decision = decide(
            call.definition.retry or self._owner.retry or performer.limits.retry,
            call.attempt,
            facts,
            randomness=performer.randomness.random(),
            elapsed=self._elapsed(),
        )
        encoded = pack(encode_error(error))
        after = decision.after if isinstance(decision, Again) else None
        outcome: StepOutcome = "failed" if error is not call.expired else "timed_out"
        performer.observer.step_ended(self.scope, outcome, error, after)
        call.took = self._took()
        if after is None:
            self._owner.close_step(call, error=encoded)
        else:
            self._owner.retry_step(call, encoded, after)


class CachedAttempt(StepAttempt):
    """One attempt of a step whose result may be in the cache."""

    __slots__ = ("_cached", "_recalled")

    async def _work(self) -> Any:
        assert self._call.definition.cache is not None
        self._cached = CachedCall(self._call, self._call.definition.cache)
        self._recalled = await self._cached.result(self._performer.recall)
        self._performer.observer.cache_read(self.scope, hit=self._recalled is not None)
        return None if self._recalled is not None else await super()._work()

    def _encoded(self, result: Any) -> bytes:
        if self._recalled is not None:
            return self._recalled
        payload = super()._encoded(result)
        self._attached = Attachments(cached=(self._cached.write(payload),))
        return payload


class _Wanting(Protocol):
    def is_wanted(self, call: Call) -> bool: ...


async def stopped_itself(owner: _Wanting, call: Call, attempt: Attempt) -> bool:
    """Return whether code has cancelled itself, and neither its run nor its loop did.

    When a loop ends it stops all tasks at once, so it takes a moment to know.
    """
    if not attempt.is_cancelling:
        return True
    try:
        if owner.is_wanted(call):
            await asyncio.sleep(LEAVE_SECONDS)
    except asyncio.CancelledError:
        return False
    return owner.is_wanted(call)


def ends_process(error: BaseException, attempt: Attempt) -> bool:
    """Return whether an error is no outcome of user code: a signal, or the end of the interpreter.

    The interpreter raises GeneratorExit in coroutines that it discards; no task runs them then.
    """
    if isinstance(error, GeneratorExit):
        return not attempt.is_current
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
    """Do the work of a step; return its error, as a future does not take every kind of error."""
    attempt.is_begun = True
    try:
        check()
        return work(), None
    except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
        return None, error
