"""Pipelines for tests: topics with consumers, and reads of what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.model.pipelines import NewEvent, NewInput
from onward.store.pipelines.publishing import publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.store import Store
    from onward.store.pipelines.publishing import PublishAnswer
    from tests.conformance.suite.world import World

MAIL, ROWS = "mail.received", "row.added"
ADD, LOG, COUNT = "mail.AddRow", "mail.Log", "mail.Count"
POLL = "mail.poll"


async def declare(
    world: World,
    subscriptions: dict[str, Sequence[str]] | None = None,
    *,
    keyed: bool = False,
    pipeline: str = "mail",
) -> None:
    """Declare a pipeline: topics, and the consumers of each."""
    declared = {MAIL: (ADD, LOG)} if subscriptions is None else subscriptions
    await world.sql(
        "INSERT INTO onward_pipeline (namespace, name, parallel, updated_at)"
        f" VALUES ('default', '{pipeline}', {int(keyed)}, 0)"
    )
    for topic, handlers in declared.items():
        await world.sql(
            "INSERT INTO onward_topic (namespace, name, pipeline, created_at)"
            f" VALUES ('default', '{topic}', '{pipeline}', 0)"
        )
        for handler in handlers:
            lane = f"{handler} " if keyed else pipeline
            await world.sql(
                "INSERT INTO onward_handler (namespace, handler, pipeline, kind, lane, updated_at)"
                f" VALUES ('default', '{handler}', '{pipeline}', 'consumer', '{lane}', 0)"
                " ON CONFLICT DO NOTHING"
            )
            await world.sql(
                "INSERT INTO onward_subscription (namespace, topic, handler, keyed)"
                f" VALUES ('default', '{topic}', '{handler}', {int(keyed)})"
            )


def an_event(message: str, topic: str = MAIL, **given: Any) -> NewEvent:
    """Return an event; its uid follows from its topic and message id."""
    return NewEvent(f"{topic} {message}", topic, message, b"j1")._replace(**given)


def an_input(external: str, **given: Any) -> NewInput:
    """Return an input; its uid follows from its id outside."""
    new = NewInput(f"input {external}", "mail", "gmail", "email", external, f"Mail {external}")
    return new._replace(**given)


async def put(
    store: Store,
    *events: NewEvent,
    inputs: Sequence[NewInput] = (),
    run: str | None = None,
) -> PublishAnswer:
    """Publish events in a transaction of their own."""
    return await store.write(lambda tx: publish(tx, events, inputs, run))


class Delivery(NamedTuple):
    """An event as one handler sees it."""

    event: str
    handler: str
    key: str
    state: str
    attempt: int


async def deliveries(world: World) -> list[Delivery]:
    """Return all deliveries, by topic and sequence number."""
    rows = await world.sql(
        "SELECT event, handler, key, state, attempt FROM onward_delivery"
        " ORDER BY topic, seq, handler"
    )
    return [Delivery(*row) for row in rows]


async def published(world: World) -> dict[tuple[str, str], int]:
    """Return how often each handler and key was given work."""
    rows = await world.sql("SELECT handler, key, published FROM onward_handler")
    return {(handler, key): count for handler, key, count in rows}


async def sequence(world: World, topic: str = MAIL) -> list[tuple[int, str]]:
    """Return the sequence numbers and message ids of a topic."""
    rows = await world.sql(
        f"SELECT seq, message FROM onward_event WHERE topic = '{topic}' ORDER BY seq"
    )
    return [(seq, message) for seq, message in rows]


async def tally(world: World) -> dict[str, tuple[int, int]]:
    """Return for each input how many deliveries are open, and how many events it has caused."""
    rows = await world.sql("SELECT uid, open, events FROM onward_input")
    return {uid: (is_open, events) for uid, is_open, events in rows}


async def causes(world: World) -> set[tuple[str, str, str]]:
    """Return what each input has caused."""
    rows = await world.sql("SELECT kind, target, input FROM onward_cause")
    return {(kind, target, uid) for kind, target, uid in rows}
