"""What a server provides to the engines of its remote workers, which they would do alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from types import TracebackType

    from onward.engine.clock_steps import ClockSteps


class RunSubscription(Protocol):
    """A subscription to hints on runs; see `onward.store.hints.Subscription`."""

    others: set[str] | None

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def add(self, subject: str) -> None: ...
    def discard(self, subject: str) -> None: ...
    def wake(self) -> None: ...
    async def wait(self, seconds: float) -> set[str]: ...


class WorkerHost(Protocol):
    """What the workers of a server share."""

    @property
    def has_limited_runs(self) -> bool:
        """Whether runs with a flow key can be claimed."""
        ...

    @property
    def key_id(self) -> str:
        """The id of the key with which the worker joins."""
        ...

    @property
    def clock_steps(self) -> ClockSteps:
        """What watches the database's clock, which has learned its time."""
        ...

    def subscribe(self) -> RunSubscription:
        """Return a subscription to hints on the runs of one worker."""
        ...
