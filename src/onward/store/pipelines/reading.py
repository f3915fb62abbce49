"""What runs of handlers read: their state, pending events, and topics that take no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.errors import NotFound
from onward.model.pipelines import FullTopic, HandlerRow, PeekedEvent

if TYPE_CHECKING:
    from collections.abc import Collection

    from onward.store.database import Tx

MAX_COUNTED = 1_000_000
"""Up to how many pending events of a topic are counted that limits only their age."""


async def handler_row(tx: Tx, handler: str, key: str) -> HandlerRow:
    """Return what a run of a handler begins with.

    Raises:
        NotFound: no pipeline has declared it.
    """
    rows = await tx.fetch("handler_row", handler=handler, key=key)
    if not rows:
        raise NotFound("handler", handler, tx.namespace)
    return HandlerRow._make(rows[0])


async def peek(tx: Tx, handler: str, key: str, topic: str, limit: int) -> list[PeekedEvent]:
    """Return the oldest events of a topic that are pending for a consumer and its key."""
    rows = await tx.fetch("peek_events", handler=handler, key=key, topic=topic, limit=limit)
    return [PeekedEvent._make(row) for row in rows]


async def peek_ids(
    tx: Tx, handler: str, key: str, topic: str, ids: Collection[str]
) -> list[PeekedEvent]:
    """Return those events, by the ids of their publishers, that are pending for a consumer."""
    messages = tx.array(dict.fromkeys(ids))
    given = {"handler": handler, "key": key, "topic": topic}
    rows = await tx.fetch("peek_messages", messages=messages, **given)
    return [PeekedEvent._make(row) for row in rows]


async def full_topics(tx: Tx, topics: Collection[str]) -> list[FullTopic]:
    """Return those of these topics that take no more events, for their slowest consumer."""
    full = []
    limited = await tx.fetch("limited_topics", topics=tx.array(sorted(set(topics))))
    for topic, max_pending, max_age in limited:
        limit = MAX_COUNTED if max_pending is None else max_pending
        found = []
        for _, pending, oldest, now in await tx.fetch("pending_of_topic", topic=topic, limit=limit):
            age = 0 if oldest is None else now - oldest
            if pending and (
                (max_pending is not None and pending >= max_pending)
                or (max_age is not None and age > max_age)
            ):
                found.append(FullTopic(topic, pending, age))
        if found:
            full.append(max(found, key=lambda each: (each.pending, each.oldest)))
    return full
