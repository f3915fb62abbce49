"""Pipelines that code declares: their topics, handlers and subscriptions become what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.delivery import DeliveryState
from onward.core.digest import digest
from onward.core.handler import HandlerKind
from onward.store.hints import PIPELINES
from onward.store.pipelines.publishing import lock_handlers
from onward.store.pipelines.writing import change_open
from onward.store.writing.text_limits import check_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.pipelines import HandlerSpec, PipelineSpec
    from onward.store.database import Tx
    from onward.store.store import Store


async def declare(store: Store, spec: PipelineSpec) -> None:
    """Make the topics, handlers and subscriptions of a pipeline what the code says of them.

    What is declared last counts. The same declaration again changes nothing. Handlers that it does
    not have any more are removed, and what is pending for them stays.
    """
    _check(spec)
    declared = digest("pipeline", repr(spec))
    known = await store.read(lambda tx: tx.fetch("declaration_of_pipeline", name=spec.name))
    if known and known[0][0] == declared:
        return
    await store.write(lambda tx: _declare(tx, spec, declared))
    store.database.publish([PIPELINES])


def lane_of(spec: PipelineSpec, handler: str, key: str) -> str:
    """Return the lane of a handler: of the runs of one lane, one is open at a time."""
    return f"{handler} {key}" if spec.is_parallel else spec.name


def _check(spec: PipelineSpec) -> None:
    check_key("pipeline", spec.name)
    check_key("queue", spec.queue)
    for topic in spec.topics:
        check_key("topic", topic.name)
    for handler in spec.handlers:
        check_key("handler", handler.name)
        for name in (*handler.subscribes, *handler.publishes):
            check_key("topic", name)


async def _declare(tx: Tx, spec: PipelineSpec, declared: str) -> None:
    await tx.fetch(
        "declare_pipeline",
        name=spec.name,
        parallel=int(spec.is_parallel),
        queue=spec.queue,
        declared=declared,
    )
    before = {row[0] for row in await tx.fetch("handlers_of_pipeline", pipeline=spec.name)}
    for handler in sorted(spec.handlers):
        await _declare_handler(tx, spec, handler)
    named = {handler.name for handler in spec.handlers}
    for removed in sorted(before - named):
        await _remove(tx, removed)
    await _declare_topics(tx, spec)
    for handler in sorted(spec.handlers):
        if handler.kind == HandlerKind.CONSUMER:
            await _subscribe(tx, handler, is_keyed=spec.is_parallel)


async def _declare_handler(tx: Tx, spec: PipelineSpec, handler: HandlerSpec) -> None:
    given = {"handler": handler.name, "pipeline": spec.name, "queue": spec.queue}
    lane, publishes = lane_of(spec, handler.name, ""), "\n".join(handler.publishes)
    await tx.fetch("declare_handler", kind=handler.kind, lane=lane, publishes=publishes, **given)
    await tx.fetch("declare_handler_keys", parallel=int(spec.is_parallel), **given)


async def _remove(tx: Tx, handler: str) -> None:
    await tx.fetch("remove_handler", handler=handler)
    await tx.fetch("cancel_launched", handler=handler)
    for topic, _ in await tx.fetch("subscriptions_of", handler=handler):
        await tx.fetch("unsubscribe", topic=topic, handler=handler)


async def _declare_topics(tx: Tx, spec: PipelineSpec) -> None:
    own = {topic.name: topic for topic in spec.topics}
    used = {name for each in spec.handlers for name in (*each.subscribes, *each.publishes)}
    for name in sorted(used.union(own)):
        topic = own.get(name)
        await tx.fetch(
            "declare_topic",
            topic=name,
            pipeline="" if topic is None else spec.name,
            max_pending=None if topic is None else topic.max_pending,
            max_age=None if topic is None else topic.max_age,
        )
    if used:  # nothing is published while subscriptions change
        await tx.fetch("lock_topics", topics=tx.array(sorted(used)))


async def _subscribe(tx: Tx, handler: HandlerSpec, *, is_keyed: bool) -> None:
    rows = await tx.fetch("subscriptions_of", handler=handler.name)
    before = {topic: bool(keyed) for topic, keyed in rows}
    for topic in sorted(set(before).difference(handler.subscribes)):
        await tx.fetch("unsubscribe", topic=topic, handler=handler.name)
    for topic in sorted(set(handler.subscribes)):
        given = {"topic": topic, "handler": handler.name, "keyed": int(is_keyed)}
        if topic not in before:
            await _begin(tx, given, is_earliest=handler.start == "earliest")
        elif before[topic] != is_keyed:
            await tx.fetch("rekey_subscription", **given)
        else:
            continue
        rows = await tx.fetch("rekey_deliveries", **given)
        await _give_work(tx, handler.name, {row[0] for row in rows})


async def _begin(tx: Tx, given: dict[str, object], *, is_earliest: bool) -> None:
    """Subscribe a consumer to a topic, from now on or to all events that are there."""
    if is_earliest:
        rows = await tx.fetch("deliver_earlier", **given)
        await change_open(tx, [row[0] for row in rows if row[2] == DeliveryState.PENDING], 1)
    await tx.fetch("subscribe", earliest=int(is_earliest), **given)


async def _give_work(tx: Tx, handler: str, keys: Iterable[str]) -> None:
    if keys:
        await lock_handlers(tx, (), [(handler, key) for key in keys])
        await tx.fetch("raise_handler_keys", handler=handler, keys=tx.array(sorted(keys)))
