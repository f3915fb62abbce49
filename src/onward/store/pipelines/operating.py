"""What operators change in pipelines: pauses, triggers, and events that are replayed or skipped."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from onward.core.decision import Moved, Refused
from onward.core.delivery import (
    Delivery,
    DeliveryState,
    Replayed,
    SkippedByOperator,
    SkipReason,
    advance,
)
from onward.errors import NotFound, PipelineBlocked
from onward.store.pipelines.overview import (
    blocked_handlers,
    consumers_of,
    deliveries_of,
    events_by_message,
    events_by_uid,
)
from onward.store.pipelines.publishing import lock_handlers
from onward.store.pipelines.writing import change_open, note_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onward.core.delivery import Fact
    from onward.store.database import Tx
    from onward.store.pipelines.overview import DeliveryOverview, EventOverview

MAX_AT_ONCE = 500
"""How many events one statement names."""

_LIST = "Check the name: onward pipelines list"


async def pause(tx: Tx, name: str | None, *, paused: bool) -> None:
    """Start no more runs of a pipeline, or of all; or start them again.

    Raises:
        NotFound: there is no such pipeline.
    """
    if name is None:
        await tx.fetch("pause_all_pipelines", paused=int(paused))
    elif not name or not await tx.fetch("pause_pipeline", name=name, paused=int(paused)):
        raise NotFound("pipeline", name, tx.namespace, _LIST)


async def trigger(tx: Tx, name: str, producer: str | None) -> list[str]:
    """Give producers of a pipeline work, one or all of them; return their names.

    Raises:
        NotFound: there is no such pipeline, or it has no such producer.
        PipelineBlocked: the pipeline is paused or blocked.
    """
    rows = {row[0]: row for row in await tx.fetch("list_pipelines")}
    if not name or name not in rows:
        raise NotFound("pipeline", name, tx.namespace, _LIST)
    if rows[name][3]:
        advice = f"Resume it first: onward pipelines resume {name}"
        raise PipelineBlocked(f"pipeline {name!r}", "is paused", advice)
    if "" in rows and rows[""][3]:
        advice = "Resume them first: onward pipelines resume --all"
        raise PipelineBlocked("all pipelines", "are paused", advice)
    producers = [row[0] for row in await tx.fetch("producers_of", pipeline=name)]
    if producer is not None:
        wanted = producer if producer in producers else f"{name}.{producer}"
        if wanted not in producers:
            advice = f"The producers of pipeline {name} are: {', '.join(producers) or 'none'}"
            raise NotFound("producer", producer, tx.namespace, advice)
        producers = [wanted]
    for blocked in await blocked_handlers(tx):
        if blocked.lane == name or blocked.handler in producers:
            raise PipelineBlocked(
                f"pipeline {name!r}",
                f"is blocked by run {blocked.id or blocked.run} of {blocked.handler}",
                f"See onward why {blocked.id or blocked.run}; then: onward pipelines resume {name}",
            )
    await lock_handlers(tx, (), [(each, "") for each in producers])
    for each in producers:
        await tx.fetch("raise_handler", handler=each, key="", count=1)
    return producers


# --- events ---------------------------------------------------------------------------------------


async def replay(tx: Tx, topic: str, messages: Sequence[str], consumer: str | None) -> int:
    """Make deliveries pending again that were consumed or skipped; return how many.

    Raises:
        NotFound: there is no such topic, event or consumer.
        PipelineBlocked: an operator has skipped all inputs of an event.
    """
    subscribed = {row[1] for row in await tx.fetch("topic_subscriptions", topic=topic)}
    moved = await _moved(tx, topic, messages, consumer, Replayed())
    moved = [each for each in moved if each.handler in subscribed]
    by_handler = _by_handler(moved)
    events = sorted({each.event for each in moved})
    if events:
        dropped = await tx.fetch("events_of_skipped_inputs", events=tx.array(events))
        for row in dropped:
            raise PipelineBlocked(
                f"event {row[0]}",
                "was caused by an input that an operator has skipped",
                "Publish the event again under another id if it has to be handled after all",
            )
    for handler, deliveries in by_handler.items():
        uids = [each.event for each in deliveries]
        await tx.fetch("replay_deliveries", handler=handler, events=tx.array(uids))
        ended = Counter(each.state for each in deliveries)
        given = {
            "consumed": -ended[DeliveryState.CONSUMED],
            "skipped": -ended[DeliveryState.SKIPPED],
        }
        await tx.fetch("count_ended", topic=topic, handler=handler, **given)
        await change_open(tx, uids, 1)
        keys = tx.array(sorted({each.key for each in deliveries}))
        await tx.fetch("raise_handler_keys", handler=handler, keys=keys)
    return len(moved)


async def skip(
    tx: Tx, topic: str, messages: Sequence[str], consumer: str | None, reason: str, by: str
) -> int:
    """Skip deliveries that are pending; return how many.

    Raises:
        NotFound: there is no such topic, event or consumer.
        PipelineBlocked: a run has reserved one of the events.
    """
    moved = await _moved(tx, topic, messages, consumer, SkippedByOperator())
    return await skip_deliveries(tx, moved, operator_reason(reason, by))


def operator_reason(reason: str, by: str) -> str:
    """Return what is stored with a delivery that an operator has skipped."""
    return f"{SkipReason.OPERATOR}: {reason} (by {by})"


async def skip_deliveries(tx: Tx, deliveries: Sequence[DeliveryOverview], reason: str) -> int:
    """Skip deliveries that are locked and pending; return how many."""
    for handler, of_handler in _by_handler(deliveries).items():
        uids = [each.event for each in of_handler]
        await tx.fetch("skip_deliveries", handler=handler, events=tx.array(uids), reason=reason)
        rows = await tx.fetch("topics_of_events", events=tx.array(uids))
        await note_ended(tx, handler, [(row[1], row[0]) for row in rows], DeliveryState.SKIPPED)
    return len(deliveries)


async def skip_unwanted(tx: Tx, events: Sequence[str]) -> None:
    """Skip those of these events that are pending again although their inputs were skipped."""
    if not events:
        return
    rows = await tx.fetch("events_of_skipped_inputs", events=tx.array(events))
    if rows:
        unwanted = await events_by_uid(tx, [row[0] for row in rows])
        found = await deliveries_of(tx, unwanted)
        pending = [
            each
            for deliveries in found.values()
            for each in deliveries
            if each.state == DeliveryState.PENDING
        ]
        await skip_deliveries(tx, pending, f"{SkipReason.OPERATOR}: its input was skipped")


async def _moved(
    tx: Tx, topic: str, messages: Sequence[str], consumer: str | None, fact: Fact
) -> list[DeliveryOverview]:
    """Return deliveries that an operator's order moves, locked.

    Raises:
        PipelineBlocked: a delivery refuses it.
    """
    handlers = set(await consumers_of(tx, topic, consumer))
    events = await events_by_message(tx, topic, messages)
    seen = await deliveries_of(tx, events)
    own = {
        (each.handler, each.key) for uid in seen for each in seen[uid] if each.handler in handlers
    }
    await lock_handlers(tx, (), own)
    return await locked(tx, events, lambda each: each.handler in handlers, fact)


async def locked(
    tx: Tx,
    events: Sequence[EventOverview],
    is_meant: Callable[[DeliveryOverview], bool],
    fact: Fact,
) -> list[DeliveryOverview]:
    """Lock the deliveries of events, and return those that `fact` moves."""
    await tx.fetch("lock_deliveries_of", events=tx.array(sorted(event.uid for event in events)))
    ids = {event.uid: event.message for event in events}
    found: list[DeliveryOverview] = []
    for uid, deliveries in (await deliveries_of(tx, events)).items():
        for each in filter(is_meant, deliveries):
            state = Delivery(DeliveryState(each.state), each.run, each.attempt, each.releases)
            decided = advance(state, fact)
            if isinstance(decided, Refused):
                raise PipelineBlocked(
                    f"event {ids[uid]!r}",
                    f"is reserved by run {each.run} of {each.handler}",
                    f"Cancel that run first: onward runs cancel {each.run}",
                )
            if isinstance(decided, Moved):
                found.append(each)
    return found


def _by_handler(
    deliveries: Sequence[DeliveryOverview],
) -> dict[str, list[DeliveryOverview]]:
    found: defaultdict[str, list[DeliveryOverview]] = defaultdict(list)
    for each in deliveries:
        found[each.handler].append(each)
    return dict(sorted(found.items()))
