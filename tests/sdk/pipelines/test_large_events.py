"""Events that together are larger than one message of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.pipelines import Pipeline, Prepared
from tests.sdk.pipelines.post import until_counts

if TYPE_CHECKING:
    from onward import App
    from onward.pipelines import PrepareContext


async def test_a_consumer_peeks_events_of_20_mb(app: App) -> None:
    pipeline = Pipeline("scans")
    found = pipeline.topic("found", str)
    peeked: list[int] = []

    @pipeline.consumer(subscribes=[found], start="earliest")
    class Read:
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
            events = await ctx.peek(found)
            peeked.append(len(events))
            return Prepared(reserve=events)

    async with app:
        await app.pipelines.declare(pipeline)
        for number in range(20):
            await app.publish(found, "x" * 1_000_000, id=str(number))
        async with app.worker(pipelines=[pipeline]):
            await until_counts(app, found, "scans.Read", consumed=20)
    assert peeked == [20]
