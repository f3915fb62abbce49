"""Events are published: into their topics, to every subscribed consumer, with their causes.

Rows are locked in one order, so that no two transactions wait for each other: handlers by name and
key, topics by name, deliveries, inputs by uid. A transaction that also writes handlers of its own
calls `lock_handlers` for all of them first.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import DeliveryState, may_overwrite
from onward.errors import NotFound
from onward.store.pipelines.causes import NewInputRow, inherited_causes, link, register

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onward.model.pipelines import NewEvent, NewInput
    from onward.store.database import Tx

DECLARE = "Start a worker that serves the pipeline of this topic, or call app.pipelines.declare"
_REGISTER = "Register the input in the same call, or before it"


class Publication(NamedTuple):
    """Events and inputs of one run, or from outside."""

    events: Sequence[NewEvent]
    inputs: Sequence[NewInput] = ()
    run: str | None = None


class PublishAnswer(NamedTuple):
    """What a publish has done: how many events are new, and which handlers have work."""

    new: int
    handlers: set[str]


class EventRow(NamedTuple):
    """An event with its place in its topic."""

    uid: str
    topic: str
    seq: int
    message: str
    key: str
    payload: bytes
    run: str | None


class Subscriber(NamedTuple):
    """A consumer of a topic, and whether it has a row for each key."""

    handler: str
    is_keyed: bool

    def key_of(self, event_key: str) -> str:
        """Return the key of the handler's row that an event with this key is for."""
        return event_key if self.is_keyed else ""


async def publish(
    tx: Tx, events: Sequence[NewEvent], inputs: Sequence[NewInput], run: str | None
) -> PublishAnswer:
    """Publish events and register inputs, all or none.

    An event whose message id the topic has is not new. Its payload is replaced if every delivery
    of it is pending, and its key, place and causes stay. Of two events with the same message id in
    one call, the second one is such a repeat.

    An event is caused by its input, or else by all inputs of `run`. If all of its inputs were
    skipped, it is skipped for every consumer.

    Args:
        tx: The transaction.
        events: The events, in the order that they have in their topics.
        inputs: The inputs to register; one that is known keeps its uid and its title.
        run: The run that publishes.

    Raises:
        NotFound: there is no such topic, or no such input. Nothing was written.
    """
    return await publish_all(tx, [Publication(events, inputs, run)])


async def publish_all(
    tx: Tx, publications: Sequence[Publication], *, are_locked: bool = False
) -> PublishAnswer:
    """Publish what several runs have published, in this order: see `publish`.

    `are_locked` says that the caller has locked the handlers of all these events.
    """
    events = [event for each in publications for event in each.events]
    inputs = [NewInputRow(*row, each.run) for each in publications for row in each.inputs]
    if not events:
        await register(tx, inputs)
        return PublishAnswer(0, set())
    topics = sorted({event.topic for event in events})
    await _check(tx, topics, events, inputs)
    if not are_locked:
        await lock_handlers(tx, events)
    last = dict(map(tuple, await tx.fetch("lock_topics", topics=tx.array(topics))))
    subscribers = await _subscribers(tx, topics)
    added, changed = await _placed(tx, publications, last)
    replaced, raised = await _replace(tx, changed)
    await tx.fetch_rows("write_events", [*added.values(), *replaced])
    for topic in sorted({row.topic for row in added.values()}):
        await tx.fetch("raise_topic", topic=topic, last=last[topic])
    if added:
        await tx.fetch("add_deliveries", events=tx.array(row.uid for row in added.values()))
    registered = await register(tx, inputs)
    causes = await _causes(tx, publications, added, registered)
    deliveries = {row.uid: len(subscribers[row.topic]) for row in added.values()}
    skipped = await link(tx, causes, deliveries)
    for row in added.values():
        for each in subscribers[row.topic] if row.uid not in skipped else ():
            raised[each.handler].add(each.key_of(row.key))
    for handler, keys in sorted(raised.items()):
        await tx.fetch("raise_handler_keys", handler=handler, keys=tx.array(sorted(keys)))
    return PublishAnswer(len(added), set(raised))


async def lock_handlers(
    tx: Tx, events: Iterable[NewEvent], own: Iterable[tuple[str, str]] = ()
) -> None:
    """Lock the rows of all handlers that events are for, and `own` ones (handler, key).

    A key that a consumer has not had before gets its row.
    """
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for topic, key in {(event.topic, event.key) for event in events}:
        keys[topic].add(key)
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for topic, subscribers in (await _subscribers(tx, sorted(keys))).items():
        for each in subscribers:
            wanted[each.handler] |= {each.key_of(key) for key in keys[topic]}
    for handler, key in own:
        wanted[handler].add(key)
    for handler in sorted(wanted):
        given = tx.array(sorted(wanted[handler]))
        if wanted[handler] != {""}:
            await tx.fetch("add_handler_keys", handler=handler, keys=given)
        await tx.fetch("lock_handler_keys", handler=handler, keys=given)


async def _check(
    tx: Tx, topics: Sequence[str], events: Sequence[NewEvent], inputs: Sequence[NewInputRow]
) -> None:
    known = await _subscribers(tx, topics)
    for topic in topics:
        if topic not in known:
            raise NotFound("topic", topic, tx.namespace, DECLARE)
    named = {event.input for event in events if event.input is not None}
    named.difference_update(each.uid for each in inputs)
    if named:
        rows = await tx.fetch("known_inputs", uids=tx.array(sorted(named)))
        for uid in sorted(named.difference(row[0] for row in rows)):
            raise NotFound("input", uid, tx.namespace, _REGISTER)


async def _subscribers(tx: Tx, topics: Sequence[str]) -> dict[str, list[Subscriber]]:
    """Return the consumers of those of these topics that are there."""
    if not topics:
        return {}
    found: defaultdict[str, list[Subscriber]] = defaultdict(list)
    for topic, handler, keyed in await tx.fetch("subscribers", topics=tx.array(topics)):
        found[topic].extend([Subscriber(handler, bool(keyed))] if handler is not None else [])
    return found


# --- events ---------------------------------------------------------------------------------------


async def _placed(
    tx: Tx, publications: Sequence[Publication], last: dict[str, int]
) -> tuple[dict[tuple[str, str], EventRow], list[EventRow]]:
    """Return the rows of the new events by topic and message id, and of those with a new payload.

    `last` is raised to the sequence numbers of the newest events.
    """
    there = await _published_before(tx, (event for each in publications for event in each.events))
    added: dict[tuple[str, str], EventRow] = {}
    changed: dict[tuple[str, str], EventRow] = {}
    for events, _, run in publications:
        for event in events:
            place = (event.topic, event.message)
            if place in there:
                changed[place] = there[place]._replace(payload=event.payload)
            elif place in added:
                added[place] = added[place]._replace(payload=event.payload)
            else:
                last[event.topic] = seq = last[event.topic] + 1
                added[place] = EventRow(
                    event.uid, event.topic, seq, event.message, event.key, event.payload, run
                )
    return added, [row for place, row in changed.items() if row.payload != there[place].payload]


async def _published_before(tx: Tx, events: Iterable[NewEvent]) -> dict[tuple[str, str], EventRow]:
    """Return the events that have the message ids of these, by topic and message id."""
    messages: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        messages[event.topic].add(event.message)
    there: dict[tuple[str, str], EventRow] = {}
    for topic, wanted in messages.items():
        rows = await tx.fetch("published_before", topic=topic, messages=tx.array(sorted(wanted)))
        for message, uid, seq, key, payload, run in rows:
            there[topic, message] = EventRow(uid, topic, seq, message, key, bytes(payload), run)
    return there


async def _replace(
    tx: Tx, changed: Sequence[EventRow]
) -> tuple[list[EventRow], defaultdict[str, set[str]]]:
    """Make deliveries of changed events stale for runs that have read them.

    Returns:
        The events that may change, and the handlers and keys that they are pending for.
    """
    raised: defaultdict[str, set[str]] = defaultdict(set)
    if not changed:
        return [], raised
    fixed: set[str] = set()
    pending: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    rows = await tx.fetch("lock_deliveries_of", events=tx.array(sorted(row.uid for row in changed)))
    for event, handler, key, state in rows:
        if may_overwrite(DeliveryState(state)):
            pending[event].append((handler, key))
        else:
            fixed.add(event)
    replaced = [row for row in changed if row.uid not in fixed]
    if replaced:
        await tx.fetch("renew_deliveries", events=tx.array(row.uid for row in replaced))
    for row in replaced:
        for handler, key in pending[row.uid]:
            raised[handler].add(key)
    return replaced, raised


async def _causes(
    tx: Tx,
    publications: Sequence[Publication],
    added: Mapping[tuple[str, str], EventRow],
    registered: Mapping[str, str],
) -> dict[str, list[str]]:
    """Return the inputs of each new event that has any."""
    inherited = await inherited_causes(tx, {each.run for each in publications if each.events})
    causes: dict[str, list[str]] = {}
    for events, _, run in publications:
        for event in events:
            row = added.get((event.topic, event.message))
            if row is None or row.uid != event.uid or event.uid in causes:
                continue  # a repeat
            if event.input is not None:
                causes[event.uid] = [registered.get(event.input, event.input)]
            elif run in inherited:
                causes[event.uid] = inherited[run]
    return causes
