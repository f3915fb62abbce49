"""The seam between a run and its worker, which a test or a simulation may stand in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from onward.codec import Arguments
    from onward.core.effect import Window
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.runtime.calls import StepCall
    from onward.runtime.effects import EffectCall
    from onward.runtime.execution import End, Execution
    from onward.store.commit import Commit
    from onward.store.rows import EffectRow, Move, NewRun, RunEnd, Started
    from onward.store.writer import Outcome
    from onward.telemetry.observer import Observer


class Host(Protocol):
    """What an execution needs from its worker."""

    id: str
    """Who has the run."""
    observer: Observer
    """Is told what happens."""

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

    def start(self, run: NewRun, on_conflict: str | None) -> asyncio.Future[Started | None]:
        """Start a run under an id that may be taken; without `on_conflict` it must be free.

        The answer is None if that cannot be done yet.
        """
        ...

    def end_of(self, uid: str) -> asyncio.Future[RunEnd | None]:
        """Return what came of a run, if it is over."""
        ...

    def dismiss(self, children: list[str]) -> asyncio.Future[None]:
        """Tell runs to stop, or those that follow them by now."""
        ...

    def limit(self, key: str, most: int) -> asyncio.Future[None] | None:
        """Let at most so many runs of a key be running at a time; None: that is so already."""
        ...

    def retry(self, execution: Execution, move: Move) -> asyncio.Future[bool | None] | None:
        """Let another run follow one that has failed, if that was asked for; None: it was not."""
        ...

    def go_on(self, execution: Execution, arguments: Arguments) -> asyncio.Future[bool]:
        """Let another run with other arguments follow one that ends."""
        ...

    @property
    def clock(self) -> Clock:
        """A clock of this machine that counts the time it was suspended."""
        ...

    def chance(self) -> float:
        """Return a number in [0, 1)."""
        ...

    def effect(self, key: str) -> asyncio.Future[EffectRow | None]:
        """Read a row of the ledger."""
        ...

    def turn(self, key: str, interval: Duration) -> asyncio.Future[Duration]:
        """Return how long to wait before something of a limited rate may be done."""
        ...

    def send_effect(
        self, execution: Execution, call: EffectCall, window: Window
    ) -> asyncio.Task[None]:
        """Start to make the call of an effect."""
        ...

    def ask_effect(self, execution: Execution, call: EffectCall) -> asyncio.Task[None]:
        """Start to ask the reconciler of an effect."""
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
