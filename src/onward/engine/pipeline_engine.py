"""What clients ask of pipelines: one method for each use case. Everything that crosses is data."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from onward.core.instant import Duration
from onward.engine.redaction import PayloadText

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.engine.pipelines.views import (
        EventInfo,
        InputCounts,
        InputInfo,
        InputReport,
        PipelineInfo,
        SkippedInput,
        TopicInfo,
    )
    from onward.model.pipelines import NewEvent, NewInput, PipelineSpec

STALE_AFTER: Duration = 7 * 24 * 3600 * 1_000_000
"""How long an input may be pending before it is stale."""


class InputFilter(NamedTuple):
    """Which inputs to list; `text` is a part of the title or of the external id."""

    pipeline: str | None = None
    state: str | None = None
    source: str | None = None
    text: PayloadText | None = None
    limit: int = 100
    stale_after: Duration = STALE_AFTER


class PipelineEngine(Protocol):
    """The pipelines of an engine. A call raises `NotFound` for a name that nothing has."""

    async def declare(self, spec: PipelineSpec) -> None:
        """Make a pipeline what the code says of it."""
        ...

    async def publish(self, events: Sequence[NewEvent], inputs: Sequence[NewInput] = ()) -> int:
        """Publish events, all or none; return how many are new.

        An id that the topic has changes nothing, except for the payload while every delivery
        of that event is pending.

        Raises:
            TopicFull: a topic takes no more events for now.
            NotFound: there is no such topic.
        """
        ...

    # --- pipelines -------------------------------------------------------------------------------

    async def all(self) -> list[PipelineInfo]:
        """Return all pipelines by name."""
        ...

    async def get(self, name: str) -> PipelineInfo:
        """Return one pipeline, with the busiest keys of its handlers."""
        ...

    async def trigger(self, name: str, producer: str | None) -> list[str]:
        """Let one producer or all of them run soon; return their names.

        Raises:
            PipelineBlocked: the pipeline is paused or blocked.
        """
        ...

    async def pause(self, name: str | None) -> None:
        """Start no more runs of a pipeline, or of all."""
        ...

    async def resume(self, name: str | None) -> list[str]:
        """Start runs again, and clear what blocks the handlers; return the ids of runs retried."""
        ...

    # --- topics ----------------------------------------------------------------------------------

    async def topics(self) -> list[TopicInfo]:
        """Return all topics by name."""
        ...

    async def counts(self, topic: str) -> dict[str, dict[str, int]]:
        """Return for each consumer how many events are in each state, zeros included."""
        ...

    async def peek(
        self, topic: str, *, limit: int, ids: Sequence[str] | None, consumer: str | None
    ) -> list[EventInfo]:
        """Return the oldest events that are pending for a consumer, or for any; or events by id."""
        ...

    async def replay(self, topic: str, ids: Sequence[str], consumer: str | None, by: str) -> int:
        """Have events handled again that were consumed or skipped; return how many deliveries."""
        ...

    async def skip(
        self, topic: str, ids: Sequence[str], consumer: str | None, reason: str, by: str
    ) -> int:
        """Skip events that are pending; return how many deliveries.

        Raises:
            PipelineBlocked: a run has reserved one of them.
        """
        ...

    # --- inputs ----------------------------------------------------------------------------------

    async def inputs(self, wanted: InputFilter) -> list[InputInfo]:
        """Return inputs, the newest first."""
        ...

    async def input_counts(self, pipeline: str | None, stale_after: Duration) -> list[InputCounts]:
        """Return how many inputs of each kind are in each state."""
        ...

    async def input(self, uid: str) -> InputReport:
        """Return what happened because of an input."""
        ...

    async def skip_input(self, uid: str, reason: str, by: str) -> SkippedInput:
        """Start nothing more because of an input; what has passed its effect completes."""
        ...
