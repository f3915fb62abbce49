"""What operators see of pipelines: rows of pipelines, handlers, topics and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import DeliveryState
from onward.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.core.instant import Duration, Instant
    from onward.store.database import Tx

MAX_COUNTED = 10_000
"""Up to how many pending events of a handler are counted."""

BUSIEST = 20
"""How many keys of a consumer are shown."""


class PipelineRow(NamedTuple):
    """A pipeline; the one without a name stands for all."""

    name: str
    is_parallel: int
    queue: str
    paused: int
    updated_at: Instant


class HandlerOverview(NamedTuple):
    """A producer or consumer, or one key of a consumer."""

    handler: str
    key: str
    pipeline: str
    kind: str
    lane: str
    publishes: str
    blocked_by: str | None
    failures: int
    wake_at: Instant | None
    removed: int
    is_due: int
    pending: int


class BlockedHandler(NamedTuple):
    """A handler that a run blocks; `id` is that of the run, None if that is deleted."""

    handler: str
    key: str
    pipeline: str
    lane: str
    run: str
    failures: int
    id: str | None


class OpenHandlerRun(NamedTuple):
    """A run of a handler that is open."""

    id: str
    handler: str
    key: str
    lane: str
    state: str
    reason: str | None


class TopicRow(NamedTuple):
    """A topic as it was declared."""

    name: str
    pipeline: str
    last: int
    max_pending: int | None
    max_age: Duration | None


class EventOverview(NamedTuple):
    """An event; `run` is the id of the run that published it."""

    uid: str
    topic: str
    seq: int
    message: str
    key: str
    payload: bytes
    run: str | None
    created_at: Instant


class DeliveryOverview(NamedTuple):
    """An event as one consumer sees it; `run` is the id of the run, `holder` its uid."""

    event: str
    handler: str
    key: str
    state: str
    run: str | None
    attempt: int
    releases: int
    reason: str | None
    updated_at: Instant
    holder: str | None


class Overview(NamedTuple):
    """All pipelines of a namespace."""

    pipelines: list[PipelineRow]
    handlers: list[HandlerOverview]
    topics: list[TopicRow]
    subscriptions: list[tuple[str, str]]
    blocked: list[BlockedHandler]
    open: list[OpenHandlerRun]

    @property
    def all_paused(self) -> bool:
        """Whether an operator has paused all pipelines."""
        return any(row.paused for row in self.pipelines if not row.name)


async def overview(tx: Tx) -> Overview:
    """Return all pipelines, with the declarations of their handlers."""
    return Overview(
        [PipelineRow(*row) for row in await tx.fetch("list_pipelines")],
        [HandlerOverview(*row) for row in await tx.fetch("declared_handlers", counted=MAX_COUNTED)],
        [TopicRow(*row) for row in await tx.fetch("declared_topics")],
        [(row[0], row[1]) for row in await tx.fetch("all_subscriptions")],
        await blocked_handlers(tx),
        [OpenHandlerRun(*row) for row in await tx.fetch("open_handler_runs", limit=MAX_COUNTED)],
    )


async def blocked_handlers(tx: Tx) -> list[BlockedHandler]:
    """Return the handlers, and keys of handlers, that a run blocks."""
    rows = await tx.fetch("list_blocked_handlers", limit=MAX_COUNTED)
    return [BlockedHandler(*row) for row in rows]


async def busiest_keys(tx: Tx, handler: str, also: Iterable[str]) -> list[HandlerOverview]:
    """Return the keys of a consumer with the most pending events, and `also` others."""
    rows = await tx.fetch("busiest_keys", handler=handler, limit=BUSIEST)
    keys = sorted({row[0] for row in rows if row[0]} | {key for key in also if key})
    if not keys:
        return []
    given = {"handler": handler, "keys": tx.array(keys), "counted": MAX_COUNTED}
    return [HandlerOverview(*row) for row in await tx.fetch("handler_keys_of", **given)]


# --- topics ---------------------------------------------------------------------------------------


async def topic_row(tx: Tx, topic: str) -> TopicRow:
    """Return a topic.

    Raises:
        NotFound: no pipeline has declared it.
    """
    rows = await tx.fetch("declared_topic", topic=topic)
    if not rows:
        raise NotFound("topic", topic, tx.namespace, "Check the name: onward topics list")
    return TopicRow(*rows[0])


async def topic_rows(tx: Tx) -> list[TopicRow]:
    """Return all topics by name."""
    return [TopicRow(*row) for row in await tx.fetch("declared_topics")]


async def counts(tx: Tx, topic: str | None = None) -> dict[str, dict[str, dict[str, int]]]:
    """Return by topic and consumer how many events are in each state, of one topic or of all.

    A consumer that was removed is there as long as events are pending for it.
    """
    if topic is None:
        rows = await tx.fetch("all_subscriptions")
    else:
        rows = await tx.fetch("topic_subscriptions", topic=topic)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, handler, consumed, skipped in rows:
        pending = await _pending(tx, name, handler)
        found.setdefault(name, {})[handler] = _counts(pending, consumed, skipped)
    topics = [topic] if topic is not None else [row.name for row in await topic_rows(tx)]
    for row in await tx.fetch("removed_consumers"):
        for name in topics:
            pending = await _pending(tx, name, row[0])
            if pending:
                found.setdefault(name, {})[row[0]] = _counts(pending, 0, 0)
    for name, handler, reserved in await tx.fetch("reserved_counts"):
        if name in topics:
            by_handler = found.setdefault(name, {})
            by_handler.setdefault(handler, _counts(0, 0, 0))[DeliveryState.RESERVED] = reserved
    return found


async def _pending(tx: Tx, topic: str, handler: str) -> int:
    return int((await tx.fetch("pending_counts", topic=topic, handler=handler))[0][0])


def _counts(pending: int, consumed: int, skipped: int) -> dict[str, int]:
    return {"pending": pending, "reserved": 0, "consumed": consumed, "skipped": skipped}


# --- events ---------------------------------------------------------------------------------------


async def pending_events(
    tx: Tx, topic: str, handlers: Sequence[str], limit: int
) -> list[EventOverview]:
    """Return the oldest events that are pending for one of these consumers."""
    found: dict[int, EventOverview] = {}
    for handler in handlers:
        given = {"topic": topic, "handler": handler, "limit": limit}
        for row in await tx.fetch("pending_events", **given):
            event = EventOverview(*row)
            found[event.seq] = event
    return [found[seq] for seq in sorted(found)][:limit]


async def events_by_message(tx: Tx, topic: str, messages: Iterable[str]) -> list[EventOverview]:
    """Return the events of a topic that have these ids.

    Raises:
        NotFound: the topic has no event with one of them.
    """
    wanted = dict.fromkeys(messages)
    given = {"topic": topic, "messages": tx.array(wanted)}
    found = [EventOverview(*row) for row in await tx.fetch("events_by_message", **given)]
    there = {event.message for event in found}
    for message in wanted:
        if message not in there:
            advice = f"Check the id; the topic is {topic}"
            raise NotFound("event", message, tx.namespace, advice)
    return found


async def events_by_uid(tx: Tx, uids: Sequence[str]) -> list[EventOverview]:
    """Return events, the oldest first."""
    if not uids:
        return []
    return [EventOverview(*row) for row in await tx.fetch("events_by_uid", events=tx.array(uids))]


async def deliveries_of(
    tx: Tx, events: Iterable[EventOverview]
) -> dict[str, list[DeliveryOverview]]:
    """Return how each consumer has handled these events, by the uid of the event."""
    found: dict[str, list[DeliveryOverview]] = {event.uid: [] for event in events}
    if found:
        for row in await tx.fetch("deliveries_of_events", events=tx.array(found)):
            found[row[0]].append(DeliveryOverview(*row))
    return found


async def consumers_of(tx: Tx, topic: str, consumer: str | None) -> list[str]:
    """Return the consumers of a topic, also removed ones; or the one that is named.

    Raises:
        NotFound: there is no such topic, or it has no such consumer.
    """
    await topic_row(tx, topic)
    rows = await tx.fetch("topic_subscriptions", topic=topic)
    known = [row[1] for row in rows]
    known += [row[0] for row in await tx.fetch("removed_consumers") if row[0] not in known]
    if consumer is None:
        return known
    if consumer not in known:
        advice = f"The consumers of topic {topic} are: {', '.join(known) or 'none'}"
        raise NotFound("consumer", consumer, tx.namespace, advice)
    return [consumer]
