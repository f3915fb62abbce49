"""A handle on a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from onward.codec import decode, decode_error
from onward.core.instant import duration
from onward.core.run import RunState
from onward.engine.display import shown_error
from onward.engine.ends import client_failure_of
from onward.engine.payloads import unpack
from onward.engine.views import RunInfo
from onward.errors import RunCancelled, RunFailed, RunPaused, Undecodable
from onward.runtime.reading import reading
from onward.sdk.inside import refuse_in_body
from onward.sdk.stuck import reported_if_stuck, why_open
from onward.sdk.waits import encode_signal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.instant import DurationLike
    from onward.engine.client_engine import ClientEngine
    from onward.engine.sending import Cancelling
    from onward.engine.views import HistoryEvent, PendingSignal
    from onward.model.runs import RunEnd
    from onward.runtime.definition import WorkflowDefinition
    from onward.sdk.waits import Signal

__all__ = ["UNCHANGED", "Run", "RunInfo", "send_signal"]

R = TypeVar("R")

UNCHANGED: Any = object()
"""Stands for a result that is not edited."""


class Run(Generic[R]):
    """A handle for a run. It stays valid when the worker that executes the run stops.

    The handle refers to an id: when the run is retried, continued or replaced, the handle refers to
    the newest run with this id.

    Attributes:
        id: Your id for the run, or its uid.
        uid: The unique key of the run that was started or found.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def square(n: int) -> int:
        ...     return n * n
        >>> async def main() -> str:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[square]):
        ...         run = await app.start(square.options(id="square-7"), 7)
        ...         return f"{run.id}: {await run.result(timeout='10s')}, {await run.state()}"
        >>> asyncio.run(main())
        'square-7: 49, succeeded'
    """

    def __init__(
        self,
        uid: str,
        run_id: str,
        engine: ClientEngine,
        definition: WorkflowDefinition | None,
    ) -> None:
        self.uid = uid
        self.id = run_id
        self._opened = engine
        self._definition = definition

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to a Run")
        return self._opened

    async def result(self, *, timeout: DurationLike | None = None, raise_paused: bool = False) -> R:
        """Wait until the run has ended and return its result.

        Args:
            timeout: How long to wait; 0 checks once, without waiting.
            raise_paused: Whether to raise if the run is paused, instead of waiting.

        Raises:
            TimeoutError: the run did not end in time; it continues. The message contains the state
                of the run and what it is waiting for.
            RunFailed: the run failed; `__cause__` is the error that it raised. An error of a
                registered type is raised directly instead.
            RunCancelled: the run was cancelled, or missed its deadline.
            RunPaused: the run is paused, and `raise_paused` is set.
            NotOpen: the app was closed in the meantime; the run continues.
        """
        refuse_in_body("waiting for a Run")
        if timeout is None:
            return self._value(await self._end(self._opened.end_of, also_paused=raise_paused))
        limit = duration(timeout)
        ask = self._opened.end_of if limit else self._opened.end_now
        try:
            async with asyncio.timeout(limit / 1_000_000 if limit else None):
                end = await self._end(ask, also_paused=raise_paused)
        except TimeoutError:
            raise TimeoutError(await why_open(self._opened, self.id, limit)) from None
        return self._value(end)

    async def _end(self, ask: Callable[..., Awaitable[RunEnd]], *, also_paused: bool) -> RunEnd:
        with reported_if_stuck(self._opened, self.id):
            end = await ask(self.uid, also_paused=also_paused)
            while end.follower is not None:
                end = await ask(end.follower, also_paused=also_paused)
        return end

    def _value(self, end: RunEnd) -> R:
        match end.state:
            case RunState.SUCCEEDED:
                value: R
                with reading(f"the result of run {self.id}"):
                    payload = unpack(end.result)
                    if self._definition is None:
                        value = decode(payload)
                    else:
                        value = self._definition.shape.decode_result(payload)
                return value
            case RunState.PAUSED:
                raise RunPaused(self.id, end.reason or "", shown_error(end.error) or "")
            case RunState.FAILED:
                error: BaseException | None = None
                try:
                    error = None if end.error is None else decode_error(unpack(end.error))
                except (Undecodable, ValueError) as unread:
                    error = unread
                failed = client_failure_of(self.id, error, end.reason or "")
                if isinstance(failed, RunFailed) and self._engine.is_private:
                    failed.advice = "See its history: await run.history()"
                raise failed
            case _:
                raise RunCancelled(self.id, end.state, end.reason or "")

    async def state(self) -> str:
        """Return the state of the run.

        The state is ready, running, waiting or paused while the run is open, and succeeded, failed,
        cancelled or timed_out when it has ended.
        """
        return (await self._engine.newest(self.id)).state

    async def info(self) -> RunInfo:
        """Return the details of the run, without its arguments or result."""
        return await self._engine.info(self.id)

    async def history(self) -> list[HistoryEvent]:
        """Return the recorded calls of the run in order; open calls come last."""
        return await self._engine.history(self.id)

    async def pending_signals(self) -> list[PendingSignal]:
        """Return the signals that the run has received but not yet read."""
        return await self._engine.pending_signals(self.id)

    async def signal(
        self,
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the run; it is stored until the run reads it.

        Args:
            signal: The signal, or its name.
            value: The value of the signal.
            message_id: Identifies the message; messages with the same id are delivered only once.

        Raises:
            NotFound: there is no such run.
            RunOver: the run has ended.
        """
        await send_signal(self._engine, self.id, signal, value, message_id)

    async def cancel(self, *, force: bool = False, grace: DurationLike | None = None) -> Cancelling:
        """Cancel the run; the return value is true if the run was still open.

        Its code receives `CancelledError` where it is waiting, and may clean up. Cleanup may call
        steps.

        Args:
            force: Whether to end the run at once, without cleanup.
            grace: How long the cleanup may take; by default a minute.
        """
        allowed = None if grace is None else duration(grace)
        return await self._engine.cancel(self.id, force=force, grace=allowed)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


async def send_signal(
    engine: ClientEngine, target: str, signal: Signal[Any] | str, value: Any, message: str | None
) -> None:
    """Send a signal, by object or name, to a run."""
    name, payload, own = encode_signal(signal, value, message)
    await engine.signal(target, name, payload, message=own)
