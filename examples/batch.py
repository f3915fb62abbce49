"""A batch: one step for each of 3,000 letters, a hundred at a time, with a result for each.

python examples/batch.py

Kill it half way and start it again: recorded letters are not sent again. To start over, delete
batch.db.
"""

import asyncio
from collections import Counter

from onward import App, Retry, step, workflow

PEOPLE = 3_000


@step(retry=Retry(attempts=3, delay="10ms"))
async def send_letter(person: int) -> str:
    await asyncio.sleep(0.03)  # a network call
    if person % 1_000 == 0:
        raise LookupError(f"person {person} has moved")
    if person % 500 == 1:
        print(f"  letter {person:,} of {PEOPLE:,} is sent", flush=True)
    return "sent abroad" if person % 10 == 0 else "sent"


@workflow
async def mailing(people: int) -> dict[str, int]:
    seen = Counter[str]()
    letters = send_letter.map(range(1, people + 1), limit=100, return_exceptions=True)
    async for result in letters:  # in order, not all in memory; or: results = await letters
        seen[result if isinstance(result, str) else "failed"] += 1
    return dict(seen)


async def main() -> None:
    app = App("batch.db")
    async with app, app.worker():
        run = await app.start(mailing.options(id="mailing-1"), PEOPLE)
        print(f"{run.id}: {PEOPLE:,} letters", flush=True)
        for what, count in sorted((await run.result(timeout="5m")).items()):
            print(f"{count:5,} {what}")


if __name__ == "__main__":
    asyncio.run(main())
