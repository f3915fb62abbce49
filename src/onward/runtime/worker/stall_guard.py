"""Letting other workers continue the runs of a worker whose event loop is blocked.

All of this happens in the thread that renews the lease. The run whose code blocks the loop stays
with its worker: on another one, it would only block that as well. Once it has blocked for too long,
it is given up like a run whose worker crashed, so that crashes count and end it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from onward.codec import encode_error
from onward.core.instant import SECOND
from onward.core.lease import STALLS_QUIET, LoopState, loop_state, stall_after
from onward.engine.payloads import pack
from onward.errors import WorkerBlocked
from onward.runtime.worker.outage import AWAY
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.instant import Duration
    from onward.core.ports import Clock
    from onward.engine.worker_engine import Renewer
    from onward.runtime.worker.loop_watch import BlockedLoopWatch, Stall
    from onward.runtime.worker.options import Options
    from onward.telemetry.observer import Observer
    from onward.telemetry.scope import Scope

RELEASE_EVERY: Duration = 5 * SECOND
"""A claim may arrive after the loop was blocked, so there may be more to release later."""


class StalledHost(Protocol):
    """The session of a worker whose event loop may be blocked."""

    id: str
    observer: Observer

    def sending(self) -> set[str]:
        """Return the runs for which an effect is being sent."""
        ...

    def on_released(self, runs: Mapping[str, int]) -> None:
        """Forget runs that were released, by their fences."""
        ...

    def on_stuck(self, stall: Stall) -> None:
        """Report that the loop has been blocked for too long, and perhaps exit."""
        ...


class StallGuard:
    """Releases runs of one worker while its event loop is blocked.

    Args:
        host: The session of the worker.
        watch: Knows for how long the loop has been blocked, and by what.
        options: After how long to do something.
        clock: A steady clock.
    """

    def __init__(
        self, host: StalledHost, watch: BlockedLoopWatch, options: Options, clock: Clock
    ) -> None:
        self._host = host
        self._watch = watch
        self._options = options
        self._clock = clock
        self.limit = options.stall_limit
        self._state = LoopState.ALIVE
        self._next_release = self._ended = self._releases = 0
        self._patience = options.stall
        self._blockers: set[str] = set()
        self.given_up: str | None = None
        """The run that blocked the loop for too long."""

    async def look(self, renewer: Renewer) -> None:
        """Do what the state of the loop calls for."""
        stall, before = self._watch.stall, self._state
        if before is LoopState.ALIVE:  # a stall that has begun is not over before the loop runs
            self._patience = stall_after(self._releases, self._options.stall)
        self._state = loop_state(stall.length, stall=self._patience, limit=self.limit)
        if self._state is LoopState.ALIVE:
            self._rest(is_over=before is not LoopState.ALIVE)
            return
        if stall.scope is not None:
            self._blockers.add(_run_of(stall.scope).uid)
        is_stuck = self._state is LoopState.STUCK and before is not LoopState.STUCK
        if is_stuck:
            self._next_release = 0
        with suppress(*AWAY):
            await self._release(stall, renewer, is_first=before is LoopState.ALIVE)
        if is_stuck:
            with suppress(*AWAY):
                await self._give_up(stall, renewer)
            self._host.on_stuck(stall)

    def _rest(self, *, is_over: bool) -> None:
        now = self._clock.monotonic()
        if is_over:
            self._ended, self._next_release = now, 0
            self._blockers.clear()
        elif now - self._ended >= STALLS_QUIET * self._options.stall:
            self._releases = 0

    async def _release(self, stall: Stall, renewer: Renewer, *, is_first: bool) -> None:
        now = self._clock.monotonic()
        if now < self._next_release:
            return
        self._next_release = now + min(RELEASE_EVERY, self._options.stall)
        # One that has blocked the loop before in this stall has not been able to write since. The
        # outcome of an effect that is being sent would be uncertain, and might need an operator.
        is_patient = self._state is LoopState.STALLED
        kept = self._blockers | self._host.sending() if is_patient else self._blockers
        released = await renewer.release_others(kept, self._options.lease)
        if released:
            self._releases += is_first
            self._host.on_released(released)
        if released or is_first:
            self._host.observer.worker_stalled(
                self._host.id, stall.scope, stall.length, stall.where, len(released)
            )

    async def _give_up(self, stall: Stall, renewer: Renewer) -> None:
        if stall.scope is not None:
            run = _run_of(stall.scope)
            self.given_up = run.uid
            error = WorkerBlocked(run.run, stall.length // SECOND, stall.where)
            await renewer.note_blocked(run.uid, pack(encode_error(error)))


def _run_of(scope: Scope) -> RunScope:
    return scope if isinstance(scope, RunScope) else scope.of
