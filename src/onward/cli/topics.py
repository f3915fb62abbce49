"""`onward topics`: the topics of pipelines, and their events."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, NO, command, group
from onward.cli.output import shown
from onward.cli.pipeline_report import STATES, topic_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.cli.command import CommandContext
    from onward.engine.pipelines.views import EventInfo

HEAD = ("TOPIC", "PIPELINE", "PUBLISHED", "CONSUMER", *(state.upper() for state in STATES))
EVENT_HEAD = ("ID", "KEY", "PUBLISHED", "PAYLOAD", "DELIVERIES")
MAX_SHOWN = 80


@group
def topics() -> None:
    """List topics, and show, replay and skip their events."""


_topic = click.argument("topic", metavar="TOPIC")
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)
_consumer = click.option(
    "--consumer", metavar="NAME", help="One consumer, such as mail-to-sheet.AddRow."
)


@command(topics, "list", example="onward topics list")
async def list_topics(context: CommandContext) -> int:
    """List topics, with counts of events for each consumer."""
    found = await context.app.topics.list()
    rows: list[Sequence[Any]] = []
    for info in found:
        own = (info.name, info.pipeline, info.published)
        for consumer, counts in info.counts.items():
            rows.append((*own, consumer, *(counts[state] for state in STATES)))
        if not info.counts:
            rows.append((*own, *[None] * (1 + len(STATES))))
    context.out.things([topic_json(info) for info in found], HEAD, rows)
    if not found:
        context.out.say("There are no topics.")
    return DONE


@command(topics, "peek", example="onward topics peek mail.received --limit 5")
@_topic
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option(
    "--id", "ids", metavar="ID", multiple=True, help="Show the events with these ids, in any state."
)
@_consumer
async def peek(
    context: CommandContext, *, topic: str, limit: int, ids: tuple[str, ...], consumer: str | None
) -> int:
    """Show the oldest pending events of a topic, or events by id.

    No event is reserved. Exits with 1 if there is no such event.
    """
    found = await context.app.topics.peek(topic, limit=limit, ids=ids or None, consumer=consumer)
    rows = [_event_row(event) for event in found]
    context.out.things([asdict(event) for event in found], EVENT_HEAD, rows)
    if not found:
        context.out.note(f"No events of {topic} match.")
    return DONE if found else NO


def _event_row(event: EventInfo) -> tuple[Any, ...]:
    payload = shown(event.payload)
    handled = tuple(
        f"{each.consumer} {each.state}{f' ({each.reason})' if each.reason else ''}"
        for each in event.deliveries
    )
    return event.id, event.key, event.published_at, _cut(payload), handled


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


@command(topics, "replay", example="onward topics replay mail.received mail-7")
@_topic
@_ids
@_consumer
async def replay(
    context: CommandContext, *, topic: str, ids: tuple[str, ...], consumer: str | None
) -> int:
    """Make consumers handle consumed or skipped events again.

    Consumers also send their effects again. Exits with 1 if none of the events was consumed or
    skipped.
    """
    count = await context.app.topics.replay(topic, ids, consumer=consumer)
    return _told(context, topic, "replayed", count, "pending again")


@command(topics, "skip", example="onward topics skip mail.received mail-7 --reason 'a test'")
@_topic
@_ids
@click.option("--reason", required=True, metavar="TEXT", help="Reason; recorded with the event.")
@_consumer
async def skip(
    context: CommandContext,
    *,
    topic: str,
    ids: tuple[str, ...],
    reason: str,
    consumer: str | None,
) -> int:
    """Skip pending events, so that no consumer handles them.

    An event that a run has reserved is not skipped; cancel the run first. Exits with 1 if no event
    was pending.
    """
    count = await context.app.topics.skip(topic, ids, reason=reason, consumer=consumer)
    return _told(context, topic, "skipped", count, "skipped")


def _told(context: CommandContext, topic: str, word: str, count: int, now: str) -> int:
    noun = "delivery is" if count == 1 else "deliveries are"
    context.out.done({"topic": topic, word: count}, f"{count:,} {noun} {now}")
    return DONE if count else NO
