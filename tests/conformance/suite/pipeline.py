"""A small pipeline for tests: one topic, two handlers that subscribe to it, and eyes on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.model.deliveries import DeliveryMove, Publish
from onward.store import Attachments
from tests.conformance.suite.samples import a_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Instant
    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from onward.store.database import Tx
    from tests.conformance.suite.worker import Worker

TOPIC = "mail.received"
ADD, LOG = "mail/add-row", "mail/log"


class Delivery(NamedTuple):
    """An event as one handler sees it."""

    event: str
    state: str
    run: str | None
    attempt: int


class Handler(NamedTuple):
    """What a handler keeps."""

    state: bytes | None
    version: int
    published: int
    wake_at: Instant | None


def an_event(message: str) -> Publish:
    """Return an event of the topic; its uid follows from its message id."""
    return Publish(f"event-{message}", TOPIC, message, b"j{}")


def moving(handler: str, was: str, becomes: str, *messages: str) -> Attachments:
    """Return what moves deliveries of these events from one state to another."""
    return Attachments(
        deliveries=tuple(
            DeliveryMove(handler, f"event-{message}", was, becomes) for message in messages
        )
    )


async def subscribe(store: Store, *handlers: str, topic: str = TOPIC) -> None:
    """Let handlers subscribe to the topic."""

    async def write(tx: Tx) -> None:
        for handler in handlers:
            await tx.fetch("subscribe", topic=topic, handler=handler)

    await store.write(write)


async def publish(worker: Worker, *messages: str) -> None:
    """Publish events of these message ids, by a run that then goes on."""
    [producer] = await worker.given(a_run(f"publish-{'-'.join(messages)}"))
    attached = Attachments(published=tuple(map(an_event, messages)))
    await worker.commit(producer, attached=attached)


async def consumer(worker: Worker, *messages: str, id: str = "consumer") -> ClaimedRun:  # noqa: A002
    """Return a consumer's run that has reserved these events of `ADD`."""
    run = a_run(id)._replace(kind="consumer", handler=ADD)
    [claimed] = await worker.given(run)
    await worker.commit(claimed, attached=moving(ADD, "pending", "reserved", *messages))
    return claimed


async def deliveries(store: Store, handler: str) -> list[Delivery]:
    """Return all deliveries of a handler, by event."""
    rows = await store.read(lambda tx: tx.fetch("deliveries", handler=handler))
    return [Delivery(*row) for row in rows]


async def kept(store: Store, handler: str, key: str = "") -> Handler | None:
    """Return what a handler keeps, or None if nothing is known of it."""
    rows: Sequence[Sequence[object]] = await store.read(
        lambda tx: tx.fetch("handler_state", handler=handler, key=key)
    )
    return Handler._make(rows[0][:4]) if rows else None
