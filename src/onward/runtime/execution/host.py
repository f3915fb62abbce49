"""What a run needs from its worker; tests and simulations have workers of their own."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.model.commits import Answered, Commit
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.attempts.perform import StepOwner
    from onward.runtime.attempts.sender import Sender
    from onward.runtime.body.calls import StepCall
    from onward.runtime.execution.loop_monitor import LoopMonitor
    from onward.runtime.registry import Registry
    from onward.runtime.worker.engine_calls import EngineCalls
    from onward.telemetry.observer import Observer


class End(StrEnum):
    """How a run left its worker."""

    PARKED = "parked"
    PAUSED = "paused"
    OVER = "over"
    LOST = "lost"


class HostedRun(Protocol):
    """A run that a worker owns, by its claim."""

    uid: str

    @property
    def fence(self) -> int: ...


class Host(Protocol):
    """What an execution needs from its worker."""

    id: str
    """The id of the worker."""
    observer: Observer
    """Receives events."""
    engine_calls: EngineCalls
    """Calls of the engine that are more than a write."""
    sender: Sender
    """Makes the calls of effects."""
    names: Registry
    """Checks the names of what bodies call."""
    loop_monitor: LoopMonitor
    """Notes whose body is running."""
    context: Context
    """The context of timers, which keeps nothing else in memory."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs everything but bodies."""
        ...

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        ...

    def latest(self) -> Instant:
        """Return the database's time, or a little more."""
        ...

    def commit(self, commit: Commit, then: Answered) -> None:
        """Write, together with other commits that are waiting, and call `then` with the outcome."""
        ...

    def perform(self, owner: StepOwner, call: StepCall) -> Attempt:
        """Start an attempt of a step, which calls `owner` when it ends."""
        ...

    @property
    def clock(self) -> Clock:
        """A clock of this machine that counts the time it was suspended."""
        ...

    def randomness(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def progress(self, execution: HostedRun, value: bytes) -> None:
        """Publish the progress of a run; callable from any thread."""
        ...

    def pending_progress(self, uid: str) -> bytes | None:
        """Return progress that is not written yet, to be written with the end of the run."""
        ...
