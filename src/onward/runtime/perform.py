"""Running the code of a step: one attempt, its time limit, and what becomes of it."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.codec import encode_error
from onward.core.instant import duration, show
from onward.core.retry import Again, decide, failure
from onward.engine.payloads import pack
from onward.errors import BadInput, Fatal, Retryable
from onward.runtime.context import StepContext, body_now, step_now
from onward.runtime.deadlines import Deadlines
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from onward.core.instant import Duration
    from onward.core.ports import Chance
    from onward.core.retry import Failure
    from onward.runtime.calls import StepCall
    from onward.runtime.definition import Limits
    from onward.runtime.execution import Execution


class Performer:
    """Runs steps for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: Executor | None,
        chance: Chance,
        limits: Limits,
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._chance = chance
        self._limits = limits
        self._deadlines = Deadlines(loop)
        # Steps begin in the worker's context, whatever their body has put into its own: on replay
        # a step may begin from elsewhere.
        self._context = copy_context()
        self._context.run(body_now.set, None)

    def close(self) -> None:
        """Start nothing more."""
        self._deadlines.close()

    def perform(self, execution: Execution, call: StepCall) -> asyncio.Task[None]:
        """Start one attempt of a step."""
        context = self._context.copy()
        context.run(step_now.set, StepContext(execution.uid, call.identity, call.attempt))
        task = self._loop.create_task(self._attempt(execution, call), context=context)
        limit = self._limit(call)
        self._deadlines.watch(call, limit / 1_000_000, lambda: _expire(call, task, limit))
        return task

    async def _attempt(self, execution: Execution, call: StepCall) -> None:
        try:
            failpoint("step.before")
            result = await self._call(call)
            failpoint("step.after")
            payload = pack(call.definition.shape.encode_result(result))
        except asyncio.CancelledError:
            if call.expired is None:
                raise  # the body stopped waiting, or the worker stops: nothing is recorded
            self._failed(execution, call, call.expired)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a step raises is its outcome
            self._failed(execution, call, error)
        else:
            execution.close_step(call, payload=payload)
        finally:
            self._deadlines.forget(call)

    async def _call(self, call: StepCall) -> Any:
        args, kwargs = call.arguments
        if call.definition.is_async:
            return await call.definition.fn(*args, **kwargs)
        work = partial(copy_context().run, call.definition.fn, *args, **kwargs)
        return await self._loop.run_in_executor(self._threads, work)

    def _limit(self, call: StepCall) -> int:
        own = call.definition.timeout
        return self._limits.timeout if own is None else own

    def _failed(self, execution: Execution, call: StepCall, error: BaseException) -> None:
        policy = call.definition.retry or execution.workflow.retry or self._limits.retry
        try:
            facts = _facts(error)
        except BadInput as malformed:  # a step that asks for an impossible wait
            error, facts = malformed, failure(BadInput, fatal=True)
        decision = decide(policy, call.attempt, facts, chance=self._chance.random())
        written = pack(encode_error(error))
        if isinstance(decision, Again):
            execution.try_step_again(call, written, decision.after)
        else:
            execution.close_step(call, error=written)


def _expire(call: StepCall, task: asyncio.Task[None], limit: Duration) -> None:
    call.expired = TimeoutError(f"step {call.name!r} took longer than {show(limit)}")
    task.cancel()


def _facts(error: BaseException) -> Failure:
    if isinstance(error, Retryable):
        after = None if error.after is None else duration(error.after)
        return failure(type(error), retryable=True, after=after)
    return failure(type(error), fatal=isinstance(error, Fatal))
