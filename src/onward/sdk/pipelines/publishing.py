"""Publishing from outside a run: events of a topic, and the inputs that they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import check_id, encode
from onward.engine.payloads import pack
from onward.errors import BadInput, NotFound
from onward.model.pipelines import NewEvent, NewInput
from onward.runtime.pipelines.contexts import MAX_TITLE
from onward.runtime.pipelines.values import Input, Topic
from onward.sdk.inside import refuse_in_body
from onward.sdk.pipelines.process import checked, owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.engine.client_engine import ClientEngine

T = TypeVar("T")


class PublishOperations:
    """The operations of an `App` that publish events."""

    @property
    def _engine(self) -> ClientEngine:
        raise NotImplementedError

    async def publish(
        self,
        topic: Topic[T] | str,
        payload: T,
        *,
        id: str,  # noqa: A002 - it is the user's word
        key: str | None = None,
        input: Input | None = None,  # noqa: A002 - it is the user's word
    ) -> bool:
        """Publish an event to all consumers of a topic.

        If the topic already has an event with this id, no new event is published. The payload of
        the existing event is replaced if the event is still pending for all consumers.

        Args:
            topic: The topic, or its name. If the topic is not in the database yet and a pipeline in
                this process declares it, that pipeline is declared first.
            payload: The payload of the event.
            id: Identifies the event in its topic.
            key: In a parallel pipeline, events with the same key are handled in order.
            input: The external item that the event comes from.

        Returns:
            Whether the event is new.

        Raises:
            TopicFull: the topic is full.
            NotFound: there is no such topic.
            Unencodable: the payload does not match the type of the topic.
        """
        batch = self._batch(topic)
        batch.add(payload, id, key, input)
        return await batch.send() == 1

    async def publish_many(
        self,
        topic: Topic[T] | str,
        payloads: Iterable[T],
        *,
        id: Callable[[T], str],  # noqa: A002 - it is the user's word
        key: Callable[[T], str | None] | None = None,
        input: Callable[[T], Input | None] | None = None,  # noqa: A002 - it is the user's word
    ) -> int:
        """Publish many events in one transaction: all of them, or none.

        If you publish through a server, all of them must fit into one message of 16 MiB.

        Args:
            topic: The topic, or its name, as in `publish`.
            payloads: The payloads of the events.
            id: A function that returns the id of an event, given its payload.
            key: A function that returns the key of an event, given its payload.
            input: A function that returns the external item that an event comes from, given its
                payload.

        Returns:
            How many of the events are new.

        Raises:
            TopicFull: the topic is full.
            NotFound: there is no such topic.
            Unencodable: a payload does not match the type of the topic.
            PayloadTooLarge: a payload is too large, or a server cannot receive all of them at once.
        """
        batch = self._batch(topic)
        for each in payloads:
            own_key = None if key is None else key(each)
            batch.add(each, id(each), own_key, None if input is None else input(each))
        return await batch.send()

    def _batch(self, topic: Topic[Any] | str) -> EventBatch:
        refuse_in_body("app.publish", "Use onward.publish")
        return EventBatch(topic, self._engine)


class EventBatch:
    """Events of one topic, to be published in one transaction."""

    def __init__(self, topic: Topic[Any] | str, engine: ClientEngine) -> None:
        self._topic = topic
        self._engine = engine
        self.name = topic_name(topic)
        self.events: list[NewEvent] = []
        self._inputs: dict[tuple[str, str, str, str], NewInput] = {}

    def add(self, payload: Any, id: str, key: str | None, input: Input | None) -> None:  # noqa: A002
        """Add an event.

        Raises:
            BadInput: its id or key is not valid, or the pipeline of the input is not known.
            Unencodable: the payload cannot be stored.
        """
        message = check_id(id, "the id of an event")
        own_key = "" if key is None else check_id(key, "the key of an event")
        source = None if input is None else self._registered(input)
        stored = self._encoded(payload)
        uid = self._engine.new_uid()
        self.events.append(NewEvent(uid, self.name, message, stored, own_key, source))

    def _encoded(self, payload: Any) -> bytes:
        if isinstance(self._topic, Topic):
            return self._topic.encode(payload)
        return pack(encode(payload, path="payload"))

    def _registered(self, given: Input) -> str:
        owner = owner_of(self._topic) if isinstance(self._topic, Topic) else None
        if owner is None:
            fact = f"needs a pipeline, and no pipeline in this process declares {self.name!r}"
            raise BadInput("input=", fact, "Publish to a topic that pipeline.topic(...) returned.")
        for name in ("source", "type", "id"):
            check_id(getattr(given, name), f"the {name} of an input")
        identity = (owner.name, given.source, given.type, given.id)
        if identity not in self._inputs:
            uid = self._engine.new_uid()  # one that is known keeps its own
            self._inputs[identity] = NewInput(uid, *identity, given.title[:MAX_TITLE])
        return self._inputs[identity].uid

    async def send(self) -> int:
        """Publish the events, and return how many are new."""
        if not self.events:
            return 0
        pipelines, inputs = self._engine.pipelines, tuple(self._inputs.values())
        try:
            return await pipelines.publish(self.events, inputs)
        except NotFound as error:
            # Not each time: an older process must not undo the declaration of newer code.
            if error.kind != "topic" or not await self._declare():
                raise
            return await pipelines.publish(self.events, inputs)

    async def _declare(self) -> bool:
        """Declare the pipeline of the topic, and return whether this process has it."""
        owner = owner_of(self._topic) if isinstance(self._topic, Topic) else None
        if owner is None or not owner.handlers:
            return False
        for each in checked([owner]):
            await self._engine.pipelines.declare(each)
        return True


def topic_name(topic: Topic[Any] | str) -> str:
    """Return the name of a topic that is given as such, or by name.

    Raises:
        BadInput: it is neither.
    """
    if isinstance(topic, Topic):
        return topic.name
    return check_id(topic, "the name of a topic")
