"""What `onward doctor` finds wrong with pipelines."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from onward.engine.finding import Finding, count_of, some_of
from onward.errors.root import count_text
from onward.store.pipelines.overview import blocked_handlers, counts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.store.database import Tx
    from onward.store.store import Store

MAX_NAMED = 100


async def pipeline_findings(store: Store) -> AsyncIterator[Finding]:
    """Return what is wrong with pipelines, the worst first."""
    lost = await store.read(lambda tx: tx.fetch("lost_reservations", limit=MAX_NAMED))
    for handler, run, count in lost:
        yield Finding(
            "reservation",
            f"{handler} has {count_text(count, 'event')} reserved by run {run}, which is gone or "
            "was replaced",
            "No run handles them. The rows were changed by hand, or this is a bug in Onward",
            f"Please report it, with the output of: onward runs show {quote(run)}",
        )
    blocked = await store.read(blocked_handlers)
    if blocked:
        names = [f"{each.handler} {each.key}".strip() for each in blocked]
        first = blocked[0].id or blocked[0].run
        yield Finding(
            "blocked",
            f"{count_of(names, 'pipeline handler')} blocked by a run that failed: {some_of(names)}",
            "The events wait until new code is deployed or an operator resumes the pipeline",
            f"onward why {quote(first)}; then onward pipelines resume {quote(blocked[0].pipeline)}",
        )
    async for finding in _unconsumed(store):
        yield finding


async def _unconsumed(store: Store) -> AsyncIterator[Finding]:
    async def removed(tx: Tx) -> list[tuple[str, str, int]]:
        gone = {row[0] for row in await tx.fetch("removed_consumers")}
        if not gone:
            return []
        return [
            (topic, handler, found["pending"])
            for topic, by_handler in (await counts(tx)).items()
            for handler, found in by_handler.items()
            if handler in gone and found["pending"]
        ]

    for topic, handler, pending in await store.read(removed):
        yield Finding(
            "removed_consumer",
            f"{handler} has {count_text(pending, 'pending event')} from topic {topic}, but the "
            f"code no longer declares {handler}",
            "No run handles them, and the inputs that caused them stay pending",
            f"Declare the consumer again, or skip the events: onward topics skip {quote(topic)} ID "
            f"--consumer {quote(handler)}",
        )
    rows = await store.read(lambda tx: tx.fetch("topics_without_consumer", limit=MAX_NAMED))
    if rows:
        names = [row[0] for row in rows]
        yield Finding(
            "topic",
            f"{count_of(names, 'topic')} without a consumer: {some_of(names)}",
            "Events published there are stored, but no run handles them",
            "Declare a consumer with start='earliest', or remove the topic from the code",
        )
