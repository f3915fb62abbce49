"""A daily digest: events wait, and are handled together when their day is over.

python examples/digest.py

A day is two seconds here, so that the example ends soon.
"""

import asyncio
from datetime import UTC, datetime, timedelta

from onward import App, Consumer, Pipeline, Prepared, effect
from onward.pipelines import MutateContext, PrepareContext

DAY = timedelta(seconds=2)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

news = Pipeline("news")
headlines = news.topic("headline", str)
sent = 0


@effect
async def send_digest(lines: list[str]) -> None:
    """Send one mail with all headlines of a day."""
    global sent
    print(f"digest of {len(lines)}: {', '.join(lines)}", flush=True)
    sent += len(lines)


def end_of_day(at: datetime) -> datetime:
    """Return when the day of a time is over."""
    return at - (at - EPOCH) % DAY + DAY


@news.consumer(subscribes=[headlines], min_wake="1ms")
class Digest(Consumer[None, list[str]]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[list[str]]:
        events = await ctx.peek(headlines, limit=1000)
        if not events:
            return Prepared()
        due = end_of_day(events[0].published_at)
        if ctx.now < due:
            return Prepared(wake_at=due)  # reserve nothing, and look again when the day is over
        todays = [event for event in events if event.published_at < due]
        lines = [event.payload for event in todays]
        return Prepared(reserve=todays, data=lines, title=f"Digest of {len(lines)} headlines")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
        await send_digest(prepared.data)


async def main() -> None:
    app = App("digest.db")
    async with app, app.worker(pipelines=[news]):
        for number in range(6):
            text = f"headline {number}"
            await app.publish(headlines, text, id=f"{datetime.now(UTC)} {text}")
            await asyncio.sleep(DAY.total_seconds() / 4)
        while sent < 6:  # noqa: ASYNC110 - the effect counts
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main())
