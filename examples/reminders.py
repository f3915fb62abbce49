"""Reminders without end: durable sleeps, and a fresh history from time to time.

python examples/reminders.py

Kill it and start it again: the next reminder comes when it is due, or at once if that has passed.
To start over, delete reminders.db.
"""

import asyncio
from datetime import datetime, timedelta

import onward
from onward import App, Signal, step, workflow

DAY = timedelta(seconds=0.3)  # short days for the example
WEEK = 7

stop = Signal("stop", str)


@step
async def remind(what: str, day: int) -> None:
    print(f"  day {day}: {what}", flush=True)


@workflow
async def reminders(what: str, day: int, due: datetime | None = None) -> str:
    due = due or onward.now()  # the same in every replay
    for _ in range(WEEK):
        day += 1
        due += DAY  # from the day before, so that delays do not add up
        try:
            async with asyncio.timeout((due - onward.now()).total_seconds()):
                return f"stopped on day {day}: {await stop.wait()}"
        except TimeoutError:
            await remind(what, day)
    # A long history is slow to replay, so the next week is a new run with the same id.
    return onward.continue_as_new(what, day, due)


async def main() -> None:
    app = App("reminders.db")
    async with app, app.worker():
        run = await app.start(reminders.options(id="plants"), "water the plants", 0)
        await asyncio.sleep(9 * DAY.total_seconds())  # let some reminders pass
        await run.signal(stop, "we are on holiday", message_id="holiday")
        print(await run.result(timeout="1m"))
        print(f"{len(await app.runs(name='reminders'))} runs in all, one a week")


if __name__ == "__main__":
    asyncio.run(main())
