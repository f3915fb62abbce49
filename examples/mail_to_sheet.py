"""Mail to sheet: a producer polls an inbox, a consumer adds one row for each mail.

python examples/mail_to_sheet.py

Kill it with Ctrl-C and start it again: the producer continues from its cursor, and no mail is
added twice.
"""

import asyncio
from dataclasses import dataclass

from onward import App, Consumer, Pipeline, Prepared, effect
from onward.pipelines import MutateContext, PrepareContext, ProducerContext


@dataclass(frozen=True)
class Mail:
    sender: str
    subject: str


INBOX = [Mail("Ada", "Engines"), Mail("Grace", "Compilers"), Mail("Edsger", "Semaphores")]
SHEET: list[str] = []

mail = Pipeline("mail-to-sheet")
received = mail.topic("mail.received", Mail)


@mail.producer(every="1s", publishes=[received])
async def poll(ctx: ProducerContext, cursor: int | None) -> int:
    """Publish what is new in the inbox, and return how far it was read."""
    start = cursor or 0
    for number, each in enumerate(INBOX[start:], start):
        title = f"Mail from {each.sender}: {each.subject}"
        source = ctx.input(source="inbox", type="email", id=str(number), title=title)
        ctx.publish(received, each, id=str(number), input=source)
    return len(INBOX)


@effect
async def append_row(sender: str, subject: str) -> int:
    """Add a row to the sheet, and return its number."""
    SHEET.append(f"{sender}: {subject}")
    print(f"row {len(SHEET)}: {SHEET[-1]}", flush=True)
    return len(SHEET)


@mail.consumer(subscribes=[received])
class AddRow(Consumer[None, Mail]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[Mail]:
        events = await ctx.peek(received, limit=1)
        if not events:
            return Prepared()  # nothing to do
        payload = events[0].payload
        return Prepared(reserve=events, data=payload, title=f"Add a row for {payload.sender}")

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Mail]) -> None:
        await append_row(prepared.data.sender, prepared.data.subject)


async def consumed(app: App) -> int:
    """Return how many events were handled."""
    return (await app.topics.counts(received))["mail-to-sheet.AddRow"]["consumed"]


async def main() -> None:
    app = App("mail_to_sheet.db")
    async with app, app.worker(pipelines=[mail]):
        while await consumed(app) < len(INBOX):  # noqa: ASYNC110 - the worker consumes them
            await asyncio.sleep(0.05)
        for each in await app.inputs.list():
            print(f"{each.title} is {each.state}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
