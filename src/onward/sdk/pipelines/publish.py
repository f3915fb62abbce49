"""`onward.publish`: a workflow publishes an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from onward.runtime.pipelines.publishing import publish_call
from onward.runtime.pipelines.values import Topic
from onward.sdk.inside import body_for

if TYPE_CHECKING:
    from typing import Any

T = TypeVar("T")


async def publish(
    topic: Topic[T] | str,
    payload: T,
    *,
    id: str,  # noqa: A002 - it is the user's word
    key: str | None = None,
) -> None:
    """Publish an event from a workflow; replays do not publish it again.

    Outside a run, use `app.publish`. In a producer or in `next`, use `ctx.publish`.

    Args:
        topic: The topic, or its name.
        payload: The payload of the event.
        id: Identifies the event in its topic.
        key: In a parallel pipeline, events with the same key are handled in order.

    Raises:
        NotInBody: the caller is not the body of a workflow.
        Unencodable: the payload does not match the type of the topic.

    Example:
        >>> import onward
        >>> from onward.pipelines import Topic
        >>> paid = Topic("order.paid", str)
        >>> @onward.workflow
        ... async def buy(order: str) -> None:
        ...     await onward.publish(paid, order, id=f"paid-{order}")
    """
    body = body_for("onward.publish", "Use app.publish outside a run, and ctx.publish in a handler")
    known: Topic[Any] = Topic(topic) if isinstance(topic, str) else topic
    await body.ask(publish_call(known, payload, id, key))
