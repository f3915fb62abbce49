"""What the handlers of a worker read while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from onward.model.pipelines import FullTopic, HandlerRow, PeekedEvent


class HandlerReads(Protocol):
    """Reads of handlers; while the engine is away they are repeated."""

    def new_uid(self) -> str:
        """Return a new id that sorts by time."""
        ...

    async def handler(self, handler: str, key: str) -> HandlerRow:
        """Return what a run of a handler begins with."""
        ...

    async def peek(self, handler: str, key: str, topic: str, limit: int) -> list[PeekedEvent]:
        """Return the oldest events of a topic that are pending for a consumer and its key."""
        ...

    async def peek_ids(
        self, handler: str, key: str, topic: str, ids: Collection[str]
    ) -> list[PeekedEvent]:
        """Return those of these events that are pending for a consumer and its key."""
        ...

    async def full_topics(self, topics: Collection[str]) -> list[FullTopic]:
        """Return those of these topics that take no more events."""
        ...
