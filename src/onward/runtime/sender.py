"""Making the call of an effect, and asking its reconciler: what happened is told to the ledger."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.codec import encode_error
from onward.core.effect import Answer
from onward.core.instant import duration, show
from onward.engine.payloads import pack
from onward.errors import BadInput, NotApplied, TimedOut
from onward.runtime.context import body_now
from onward.runtime.effects import Applied, Sending, sending_now

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from onward.core.effect import Window
    from onward.core.ports import Clock
    from onward.runtime.effects import EffectCall
    from onward.runtime.execution import Execution


class Sender:
    """Calls the handlers of effects for a worker: async ones on its loop, others in its threads."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: Executor | None, clock: Clock
    ) -> None:
        self._loop = loop
        self._threads = threads
        self._clock = clock
        self._context = copy_context()
        self._context.run(body_now.set, None)

    def send(self, execution: Execution, call: EffectCall, window: Window) -> asyncio.Task[None]:
        """Make the call, if it may still begin by this machine's clock."""
        context = self._context.copy()
        key = call.key(execution.claimed)
        context.run(sending_now.set, Sending(call.name, key, window.send_by, self._clock))
        return self._loop.create_task(self._send(execution, call, window), context=context)

    async def _send(self, execution: Execution, call: EffectCall, window: Window) -> None:
        ledger = execution.ledger
        if self._clock.monotonic() > window.start_by:
            # We slept through it: somebody may have judged this by now, so it is not sent.
            late = NotApplied(f"effect {call.name!r} was not sent in time", after=0)
            ledger.not_applied(call, 0, pack(encode_error(late)))
            return
        try:
            result = await self._call(call)
        except NotApplied as not_applied:
            after = not_applied.after
            try:
                wait = None if after is None else duration(after)
            except BadInput:  # an impossible wait must not make it uncertain
                wait = None
            ledger.not_applied(call, wait, pack(encode_error(not_applied)))
        except asyncio.CancelledError:
            raise  # the worker stops: whoever takes the run over finds it in flight
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - anything else says nothing about outside
            ledger.lost(call, pack(encode_error(error)))
        else:
            self._returned(execution, call, result)

    def _returned(self, execution: Execution, call: EffectCall, result: Any) -> None:
        try:
            kept = pack(call.definition.shape.encode_result(result))
        except Exception as error:  # noqa: BLE001 - it happened, though its result cannot be kept
            execution.ledger.returned(call, None, pack(encode_error(error)))
        else:
            execution.ledger.returned(call, kept, None)

    async def _call(self, call: EffectCall) -> Any:
        args, kwargs = call.arguments()
        limit = call.definition.timeout
        try:
            async with asyncio.timeout(limit / 1_000_000) as clock:
                if call.definition.is_async:
                    return await call.definition.fn(*args, **kwargs)
                work = partial(copy_context().run, call.definition.fn, *args, **kwargs)
                return await self._loop.run_in_executor(self._threads, work)
        except TimeoutError as error:
            if clock.expired():
                raise TimedOut(f"effect {call.name!r}", show(limit)) from error
            raise

    def ask(self, execution: Execution, call: EffectCall) -> asyncio.Task[None]:
        """Ask the reconciler what became of a call."""
        return self._loop.create_task(self._ask(execution, call), context=self._context.copy())

    async def _ask(self, execution: Execution, call: EffectCall) -> None:
        answer, result = Answer.UNKNOWN, None
        try:
            said = await self._reconcile(execution, call)
            if isinstance(said, Applied):
                answer = Answer.APPLIED
                result = pack(call.definition.shape.encode_result(said.result))
            elif isinstance(said, NotApplied) or said is NotApplied:
                answer = Answer.NOT_APPLIED
        except NotApplied:
            answer = Answer.NOT_APPLIED
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - one that fails does not know
            answer, result = Answer.UNKNOWN, None
        execution.ledger.answered(call, answer, result)

    async def _reconcile(self, execution: Execution, call: EffectCall) -> Any:
        reconcile = call.definition.reconcile
        assert reconcile is not None
        args, kwargs = call.arguments()
        kwargs["key"] = call.key(execution.claimed)
        async with asyncio.timeout(call.definition.timeout / 1_000_000):
            if inspect.iscoroutinefunction(reconcile):
                return await reconcile(*args, **kwargs)
            work = partial(copy_context().run, reconcile, *args, **kwargs)
            said = await self._loop.run_in_executor(self._threads, work)
            return await said if inspect.isawaitable(said) else said
