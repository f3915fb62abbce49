"""The seam between a run and its worker, which a test or a simulation may stand in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from contextvars import Context

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.model.commits import Commit, CommitOutcome
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.attempts.perform import StepOwner
    from onward.runtime.attempts.sender import Sender
    from onward.runtime.body.calls import StepCall
    from onward.runtime.execution.execution import End, Execution
    from onward.runtime.execution.loop_monitor import LoopMonitor
    from onward.runtime.registry import Registry
    from onward.runtime.worker.engine_calls import EngineCalls
    from onward.telemetry.observer import Observer


class HostedRun(Protocol):
    """A run that a worker owns, by its claim."""

    uid: str
    fence: int


class Host(Protocol):
    """What an execution needs from its worker."""

    id: str
    """Who has the run."""
    observer: Observer
    """Receives what happens."""
    engine_calls: EngineCalls
    """Calls of the engine that are more than a write."""
    sender: Sender
    """Makes the calls of effects."""
    names: Registry
    """Whose the names of what bodies call are."""
    turns: LoopMonitor
    """Notes which run has its turn."""
    context: Context
    """What timers run in, so that they keep nothing else in memory."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which everything but bodies runs."""
        ...

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        ...

    def commit(self, commit: Commit) -> asyncio.Future[CommitOutcome]:
        """Write, together with whatever else has gathered."""
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
        """Let others see how far a run is; from any thread."""
        ...

    def look(self, execution: Execution) -> None:
        """Read the run's inbox and tell it what is new."""
        ...

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that the run left this worker's hands."""
        ...
