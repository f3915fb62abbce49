"""The seam between a run and its worker, which a test or a simulation may stand in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from onward.core.instant import Instant
    from onward.runtime.calls import StepCall
    from onward.runtime.execution import End, Execution
    from onward.store.commit import Commit
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

    def look(self, execution: Execution) -> None:
        """Read the run's inbox and tell it what is new."""
        ...

    def ended(self, execution: Execution, end: End) -> None:
        """Take note that the run left this worker's hands."""
        ...
