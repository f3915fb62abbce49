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
from onward.errors import BadInput, Fatal, Retryable, TimedOut
from onward.runtime.attempt import Attempt
from onward.runtime.context import body_now, step_now
from onward.runtime.deadlines import Deadlines
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Chance
    from onward.core.retry import Failure, Retry
    from onward.runtime.calls import StepCall
    from onward.runtime.definition import Limits
    from onward.runtime.execution import Execution

THREAD_GRACE_SECONDS = 1.0
"""How long a step in a thread may take to notice that it should stop."""


class Performer:
    """Runs steps for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: Executor | None,
        chance: Chance,
        limits: Limits,
        now: Callable[[], Instant],
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._chance = chance
        self._limits = limits
        self._now = now
        self._deadlines = Deadlines(loop)
        # Steps begin in the worker's context, whatever their body has put into its own: on replay
        # a step may begin from elsewhere.
        self._context = copy_context()
        self._context.run(body_now.set, None)

    def close(self) -> None:
        """Start nothing more."""
        self._deadlines.close()

    def perform(
        self, execution: Execution, call: StepCall, tell: Callable[[bytes], None]
    ) -> asyncio.Task[None]:
        """Start one attempt of a step; `tell` is given its progress."""
        attempt = Attempt(
            execution.claimed,
            call.name,
            call.identity,
            call.attempt,
            lambda value: tell(pack(encode(value, path="progress"))),
        )
        context = self._context.copy()
        context.run(step_now.set, attempt)
        task = self._loop.create_task(self._attempt(execution, call, attempt), context=context)
        limit = self._limit(execution, call)
        self._deadlines.watch(call, limit / 1_000_000, lambda: _expire(call, task, limit))
        return task

    async def _attempt(self, execution: Execution, call: StepCall, attempt: Attempt) -> None:
        try:
            failpoint("step.before")
            result = await self._call(call, attempt)
            failpoint("step.after")
            payload = pack(call.definition.shape.encode_result(result))
        except asyncio.CancelledError as stopped:
            attempt.is_stopped = True
            if call.expired is not None:
                self._failed(execution, call, call.expired)
            elif call.task is not None and not call.task.cancelling():
                self._failed(execution, call, stopped)  # its own code raised it
            else:
                raise  # the body stopped waiting, or the worker stops: nothing is recorded
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
            self._failed(execution, call, error)
        else:
            execution.close_step(call, payload=payload, noted=attempt.noted)
        finally:
            self._deadlines.forget(call)

    async def _call(self, call: StepCall, attempt: Attempt) -> Any:
        args, kwargs = call.arguments
        if call.definition.is_async:
            return await call.definition.fn(*args, **kwargs)
        work = partial(copy_context().run, call.definition.fn, *args, **kwargs)
        return await self._in_thread(work, attempt)

    async def _in_thread(self, work: Callable[[], Any], attempt: Attempt) -> Any:
        """Run a step in a thread, which cannot be stopped but by its own will.

        Its place in the pool stays taken until it ends; nobody waits for that longer than a moment.
        """
        running = self._loop.run_in_executor(self._threads, work)
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            attempt.is_stopped = True
            running.add_done_callback(_hear)
            await asyncio.wait([running], timeout=THREAD_GRACE_SECONDS)
            raise
        return running.result()

    def _policy(self, execution: Execution, call: StepCall) -> Retry:
        return call.definition.retry or execution.program.retry or self._limits.retry

    def _limit(self, execution: Execution, call: StepCall) -> Duration:
        own = call.definition.timeout
        limit = self._limits.timeout if own is None else own
        within = self._policy(execution, call).within_most
        return limit if within is None else max(1, min(limit, within - self._elapsed(call)))

    def _elapsed(self, call: StepCall) -> Duration:
        return 0 if call.since is None else self._now() - call.since

    def _failed(self, execution: Execution, call: StepCall, error: BaseException) -> None:
        try:
            facts = _facts(error)
        except BadInput as malformed:  # a step that asks for an impossible wait
            error, facts = malformed, failure(BadInput, fatal=True)
        decision = decide(
            self._policy(execution, call),
            call.attempt,
            facts,
            chance=self._chance.random(),
            elapsed=self._elapsed(call),
        )
        written = pack(encode_error(error))
        if isinstance(decision, Again):
            execution.try_step_again(call, written, decision.after)
        else:
            execution.close_step(call, error=written)


def _expire(call: StepCall, task: asyncio.Task[None], limit: Duration) -> None:
    call.expired = TimedOut(f"step {call.name!r}", show(limit))
    task.cancel()


def _facts(error: BaseException) -> Failure:
    if isinstance(error, Retryable):
        after = None if error.after is None else duration(error.after)
        return failure(type(error), retryable=True, after=after)
    return failure(type(error), fatal=isinstance(error, Fatal))


def _hear(running: asyncio.Future[Any]) -> None:
    if not running.cancelled():
        running.exception()  # asyncio would complain that nobody looked at it
