"""A daily digest: events are collected, and handled together when the day is over.

python examples/digest.py

A day is two seconds here, so that the example ends soon.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from onward import App, Consumer, Outcome, Pipeline, Prepared, effect
from onward.pipelines import MutateContext, NextContext, PrepareContext

DAY = timedelta(seconds=2)

news = Pipeline("news")
headlines = news.topic("headline", str)
digests: list[int] = []


@effect
async def send_digest(lines: list[str]) -> int:
    """Send one mail with all headlines of a day."""
    print(f"digest {len(digests) + 1}: {', '.join(lines)}", flush=True)
    return len(lines)


@news.consumer(subscribes=[headlines], min_wake="100ms")
class Digest(Consumer[datetime, list[str]]):
    """Its state is the end of the day that it collects headlines for."""

    async def prepare(self, ctx: PrepareContext, state: datetime | None) -> Prepared[list[str]]:
        events = await ctx.peek(headlines, limit=1000)
        if state is None or not events:
            return Prepared(wake_at=DAY if state is None else None)
        if ctx.now < state:
            return Prepared(wake_at=state)  # not yet: wake me at the end of the day
        lines = [event.payload for event in events]
        return Prepared(reserve=events, data=lines, title=f"Digest of {len(lines)} headlines")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
        await send_digest(prepared.data)

    async def next(
        self, ctx: NextContext, prepared: Prepared[list[str]], outcome: Outcome
    ) -> datetime | None:
        if prepared.reserve:
            digests.append(len(prepared.reserve))
        return datetime.now(UTC) + DAY if prepared.reserve or not digests else None


async def main() -> None:
    app = App("digest.db")
    async with app, app.worker(pipelines=[news]):
        for day in range(2):
            for number in range(3):
                text = f"headline {day}.{number}"
                await app.publish(headlines, text, id=f"{datetime.now(UTC)} {text}")
            while len(digests) == day:
                await asyncio.sleep(0.05)
    print(f"{len(digests)} digests for {sum(digests)} headlines", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
