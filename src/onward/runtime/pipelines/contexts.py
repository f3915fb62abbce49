"""What each phase of a handler may do: a context has the operations of its phase and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import check_id
from onward.engine.display import shown_time
from onward.errors import BadInput
from onward.model.pipelines import NewEvent, NewInput
from onward.runtime.pipelines.values import Event, Input

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from onward.core.instant import Instant
    from onward.model.pipelines import PeekedEvent
    from onward.runtime.pipelines.definition import (
        ConsumerDefinition,
        HandlerDefinition,
    )
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.pipelines.values import Topic

T = TypeVar("T")

MAX_PEEK = 1_000
"""How many events one peek may return."""

MAX_PUBLISHED = 10_000
"""How many events one run may publish."""

MAX_TITLE = 500


class HandlerContext:
    """What every phase knows.

    Attributes:
        pipeline: The name of the pipeline.
        handler: The name of the handler, with that of the pipeline.
        key: The key of the events that the run handles; empty in a serial pipeline.
    """

    def __init__(self, definition: HandlerDefinition, key: str) -> None:
        self.pipeline = definition.pipeline
        self.handler = definition.name
        self.key = key


class PrepareContext(HandlerContext):
    """What `prepare` may do: read pending events, and read from the outside world."""

    def __init__(
        self, definition: ConsumerDefinition, key: str, reads: HandlerReads, now: Instant
    ) -> None:
        super().__init__(definition, key)
        self._topics = {topic.name: topic for topic in definition.subscribes}
        self._reads = reads
        self.now: datetime = shown_time(now)
        """The database's time when the phase began."""

    async def peek(self, topic: Topic[T], limit: int = 100) -> list[Event[T]]:
        """Return the oldest events of a topic that are pending for this consumer.

        Args:
            topic: A topic that the consumer subscribes to.
            limit: The maximum number of events to return: 1 to 1,000.
        """
        self._check(topic)
        if not 1 <= limit <= MAX_PEEK:
            raise BadInput(
                f"limit={limit}", f"is not between 1 and {MAX_PEEK:,}", "Use a number in this range"
            )
        rows = await self._reads.peek(self.handler, self.key, topic.name, limit)
        return [_event(topic, row) for row in rows]

    async def get(self, topic: Topic[T], ids: Collection[str]) -> list[Event[T]]:
        """Return the events with these ids that are pending for this consumer."""
        self._check(topic)
        rows = await self._reads.peek_ids(self.handler, self.key, topic.name, ids)
        return [_event(topic, row) for row in rows]

    def _check(self, topic: Topic[Any]) -> None:
        if topic.name not in self._topics:
            raise BadInput(
                f"topic {topic.name!r}",
                f"cannot be read by {self.handler}, which does not subscribe to it",
                f"Subscribe to it, or use one of: {', '.join(sorted(self._topics))}.",
            )


class MutateContext(HandlerContext):
    """What `mutate` may do: await one effect and nothing else. Onward then carries it out."""


class _Publishing(HandlerContext):
    """What phases know that publish: the events appear when the run commits, or not at all."""

    def __init__(self, definition: HandlerDefinition, key: str, reads: HandlerReads) -> None:
        super().__init__(definition, key)
        self._topics = {topic.name: topic for topic in definition.publishes}
        self._new_uid = reads.new_uid
        self.published: list[NewEvent] = []
        self.inputs: dict[tuple[str, str, str], NewInput] = {}

    def _publish(
        self,
        topic: Topic[T],
        payload: T,
        message: str,
        key: str | None,
        source: str | None,
    ) -> None:
        if topic.name not in self._topics:
            declared = ", ".join(sorted(self._topics)) or "none"
            raise BadInput(
                f"topic {topic.name!r}",
                f"is not in publishes= of {self.handler} (declared: {declared})",
                "Add it to publishes=[...].",
            )
        if len(self.published) >= MAX_PUBLISHED:
            raise BadInput(
                f"{self.handler}",
                f"published more than {MAX_PUBLISHED:,} events in one run",
                "Publish the rest in the next run.",
            )
        check_id(message, "the id of an event")
        own_key = "" if key is None else check_id(key, "the key of an event")
        event = NewEvent(
            self._new_uid(), topic.name, message, topic.encode(payload), own_key, source
        )
        self.published.append(event)


class NextContext(_Publishing):
    """What `next` may do: publish events, which inherit the inputs of the reserved events."""

    def publish(self, topic: Topic[T], payload: T, *, id: str, key: str | None = None) -> None:  # noqa: A002
        """Publish an event, in the commit that ends the run.

        Args:
            topic: A topic that the handler declares in `publishes`.
            payload: The payload of the event.
            id: The id of the event; only one event is published for each id.
            key: The key of the event, for parallel pipelines.
        """
        self._publish(topic, payload, id, key, None)


class ProducerContext(_Publishing):
    """What a producer may do: register inputs, and publish events."""

    def input(self, *, source: str, type: str, id: str, title: str) -> Input:  # noqa: A002
        """Register an external item that entered the pipeline.

        Pass the result to `publish` as the `input` of the events that the item causes.

        Args:
            source: Where the item comes from, such as `gmail`.
            type: What it is, such as `email`.
            id: Its id at the source. If the item is already registered, it keeps its first title.
            title: A human-readable title.
        """
        for name, text in (("source", source), ("type", type), ("id", id)):
            check_id(text, f"the {name} of an input")
        external = (source, type, id)
        known = self.inputs.get(external)
        if known is None:  # the store knows whether it was registered before
            known = NewInput(self._new_uid(), self.pipeline, *external, title[:MAX_TITLE])
            self.inputs[external] = known
        return Input(source, type, id, known.title, known.uid)

    def publish(
        self,
        topic: Topic[T],
        payload: T,
        *,
        id: str,  # noqa: A002
        key: str | None = None,
        input: Input | None = None,  # noqa: A002
    ) -> None:
        """Publish an event, in the commit that stores the producer's new state.

        Args:
            topic: A topic that the producer declares in `publishes`.
            payload: The payload of the event.
            id: The id of the event; only one event is published for each id.
            key: The key of the event, for parallel pipelines.
            input: The input that caused the event, from `ctx.input(...)`.
        """
        self._publish(topic, payload, id, key, None if input is None else input.uid)


def _event(topic: Topic[T], row: PeekedEvent) -> Event[T]:
    return Event(
        row.message,
        row.topic,
        topic.decode(row.payload),
        key=row.key,
        attempt=row.attempt,
        published_at=shown_time(row.created_at),
        uid=row.uid,
        replays=row.replays,
    )
