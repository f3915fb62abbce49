"""Reminders that go on for as long as you like: durable sleeps, and a fresh history now and then.

python examples/reminders.py

Kill it and start it again: the next reminder comes when it was due, or at once if that has passed.
To begin anew, delete reminders.db.
"""

import asyncio
from datetime import datetime, timedelta

import onward
from onward import App, Signal, step, workflow

DAY = timedelta(seconds=0.3)  # short days, so that you need not wait
WEEK = 7

stop = Signal("stop", str)


@step
async def remind(what: str, day: int) -> None:
    print(f"  day {day}: {what}", flush=True)


@workflow
async def reminders(what: str, day: int, due: datetime | None = None) -> str:
    due = due or onward.now()  # the time of the run: the same in every replay
    for _ in range(WEEK):
        day += 1
        due += DAY  # counted from the day before, so that lateness does not add up
        try:
            async with asyncio.timeout((due - onward.now()).total_seconds()):
                return f"stopped on day {day}: {await stop.wait()}"
        except TimeoutError:
            await remind(what, day)
    # A history that grows for ever is slow to replay: the next week is a new run of the same id.
    return onward.continue_as_new(what, day, due)


async def main() -> None:
    app = App("reminders.db")
    async with app, app.worker():
        run = await app.start(reminders.options(id="plants"), "water the plants", 0)
        await asyncio.sleep(9 * DAY.total_seconds())  # so long we like to be reminded
        await run.signal(stop, "we are on holiday", message_id="holiday")
        print(await run.result(timeout="1m"))
        print(f"{len(await app.runs(name='reminders'))} runs in all, one a week")


if __name__ == "__main__":
    asyncio.run(main())
