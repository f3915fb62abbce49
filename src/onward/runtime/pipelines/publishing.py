"""A workflow publishes an event: a durable call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.codec import check_id, fingerprint_of_json
from onward.core.digest import digest
from onward.core.replay import RecordKind
from onward.model.pipelines import NewEvent
from onward.runtime.body.calls import Awaited

if TYPE_CHECKING:
    from onward.core.replay import Record
    from onward.runtime.pipelines.values import Topic


class PublishCall(Awaited):
    """The publication of one event."""

    kind = RecordKind.PUBLISH

    def __init__(self, event: NewEvent) -> None:
        stored = b"\n".join((event.message.encode(), event.key.encode(), event.payload))
        super().__init__(event.topic, fingerprint_of_json(stored))
        self.event = event

    def value(self, record: Record) -> None:
        """Return nothing."""


def publish_call(topic: Topic[Any], payload: Any, message: str, key: str | None) -> PublishCall:
    """Return the call that publishes an event: the same id is published once."""
    message = check_id(message, "the id of an event")
    own_key = "" if key is None else check_id(key, "the key of an event")
    uid = digest("event", topic.name, message)
    return PublishCall(NewEvent(uid, topic.name, message, topic.encode(payload), own_key))
