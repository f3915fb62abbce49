"""The seam between a run and its worker, which a test or a simulation may stand in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from onward.codec import Arguments
    from onward.core.instant import Instant
    from onward.runtime.calls import StepCall
    from onward.runtime.execution import End, Execution
    from onward.store.commit import Commit
    from onward.store.rows import Move, NewRun, Started
    from onward.store.writer import Outcome


class Host(Protocol):
    """What an execution needs from its worker."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which everything but bodies runs."""
        ...

    def now(self) -> Instant:
        """Return the database's time, or a little less."""
        ...

    def commit(self, commit: Commit) -> asyncio.Future[Outcome]:
        """Write, together with whatever else has gathered."""
        ...

    def perform(self, execution: Execution, call: StepCall) -> asyncio.Task[None]:
        """Start to run the code of a step."""
        ...

    def start(self, run: NewRun, on_conflict: str | None) -> asyncio.Future[Started]:
        """Start a run under an id that may be taken; None: it must become this very run."""
        ...

    def retry(self, execution: Execution, move: Move) -> asyncio.Future[bool] | None:
        """Let another run follow one that has failed, if that was asked for."""
        ...

    def go_on(self, execution: Execution, arguments: Arguments) -> asyncio.Future[bool]:
        """Let another run with other arguments follow one that ends."""
        ...

    def progress(self, execution: Execution, value: bytes) -> None:
        """Let others see how far a run is; from any thread."""
        ...

    def look(self, execution: Execution) -> None:
        """Read the run's inbox and tell it what is new."""
        ...

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that the run left this worker's hands."""
        ...
