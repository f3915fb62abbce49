"""Topics and their events, read for users."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from onward.engine.display import shown_time, shown_value
from onward.engine.pipelines.views import DeliveryInfo, EventInfo, TopicInfo
from onward.errors import BadInput
from onward.store.pipelines.overview import (
    consumers_of,
    counts,
    deliveries_of,
    events_by_message,
    pending_events,
    topic_row,
    topic_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.store.database import Tx
    from onward.store.pipelines.overview import DeliveryOverview, EventOverview, TopicRow
    from onward.store.store import Store

MAX_PEEK = 1_000
"""How many events are read at a time."""


async def all_topics(store: Store) -> list[TopicInfo]:
    """Return all topics by name."""

    async def look(tx: Tx) -> tuple[list[TopicRow], dict[str, dict[str, dict[str, int]]]]:
        return await topic_rows(tx), await counts(tx)

    rows, counted = await store.snapshot(look)
    return [
        TopicInfo(
            row.name,
            row.pipeline,
            row.last,
            row.max_pending,
            None if row.max_age is None else timedelta(microseconds=row.max_age),
            counted.get(row.name, {}),
        )
        for row in rows
    ]


async def topic_counts(store: Store, topic: str) -> dict[str, dict[str, int]]:
    """Return for each consumer of a topic how many events are in each state.

    Raises:
        NotFound: there is no such topic.
    """

    async def look(tx: Tx) -> dict[str, dict[str, dict[str, int]]]:
        await topic_row(tx, topic)
        return await counts(tx, topic)

    return (await store.snapshot(look)).get(topic, {})


async def peek(
    store: Store, topic: str, *, limit: int, ids: Sequence[str] | None, consumer: str | None
) -> list[EventInfo]:
    """Return the oldest events that are pending for a consumer, or for any; or events by id.

    Raises:
        NotFound: there is no such topic, consumer or event.
        BadInput: too many are wanted, or none.
    """
    if not 1 <= limit <= MAX_PEEK:
        advice = "Use a number in this range"
        raise BadInput(f"limit={limit}", f"is not between 1 and {MAX_PEEK:,}", advice)
    if ids is not None:
        check_ids(ids)

    async def look(tx: Tx) -> list[EventInfo]:
        handlers = await consumers_of(tx, topic, consumer)
        if ids is None:
            found = await pending_events(tx, topic, handlers, limit)
        else:
            found = await events_by_message(tx, topic, ids)
        return event_infos(found, await deliveries_of(tx, found))

    return await store.snapshot(look)


def check_ids(ids: Sequence[str]) -> None:
    """Refuse more ids of events than one call takes.

    Raises:
        BadInput: there are too many.
    """
    if len(ids) > MAX_PEEK:
        raise BadInput(
            f"{len(ids):,} ids", f"exceed the limit of {MAX_PEEK:,}", "Pass fewer ids per call"
        )


def event_infos(
    events: Iterable[EventOverview], deliveries: Mapping[str, Sequence[DeliveryOverview]]
) -> list[EventInfo]:
    """Return events with their deliveries."""
    return [
        EventInfo(
            event.message,
            event.topic,
            event.key,
            shown_value(bytes(event.payload)),
            event.run,
            shown_time(event.created_at),
            tuple(
                DeliveryInfo(
                    each.handler,
                    each.state,
                    each.run,
                    each.attempt,
                    each.releases,
                    each.reason,
                    shown_time(each.updated_at),
                )
                for each in deliveries.get(event.uid, ())
            ),
        )
        for event in events
    ]
