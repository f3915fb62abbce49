"""An order as a saga: completed parts are undone in reverse order when a later part fails.

python examples/saga.py

Each part and its compensation is an effect: if a reply is lost, a reconciler looks up the outcome,
and nothing is done or undone twice. Kill it at any point and start it again: it continues where it
stopped. To start over, delete saga.db and saga.world.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from onward import App, Applied, NotApplied, Retry, effect, effect_key, workflow

WORLD = Path("saga.world")  # what the shop, bank and shipper have done, by key


def do(text: str) -> None:
    time.sleep(0.3)  # a network call
    with WORLD.open("a") as world:
        world.write(f"{effect_key()} {text}\n")  # they record it under our key
    print(f"    {text}\n", end="", flush=True)  # one write: several threads print


def look_up(*_: object, key: str) -> Applied[None] | NotApplied:  # the reconciler
    found = [line for line in WORLD.read_text().splitlines() if line.startswith(key)]
    print(f"    looked up: {found[0].partition(' ')[2] if found else 'nothing'}\n", end="")
    return Applied(None) if found else NotApplied()


# With these limits, a call that did not happen is made again after 4 seconds.
careful = effect(reconcile=look_up, timeout="2s", settle="1s", start_within="1s")


@careful
def reserve(order: str, item: str) -> None:
    do(f"{order}: reserved a {item}")


@careful
def release(order: str, item: str) -> None:
    do(f"{order}: released the {item}")


@careful
def charge(order: str, cents: int) -> None:
    do(f"{order}: charged {cents} cents")


@careful
def refund(order: str, cents: int) -> None:
    do(f"{order}: gave {cents} cents back")
    raise ConnectionError("the bank's reply was lost")  # refunded, but we cannot know: look it up


@careful
def ship(order: str, country: str) -> None:
    if country == "Atlantis":
        raise NotApplied("no ship goes to Atlantis")  # certain: nothing happened
    do(f"{order}: shipped to {country}")


@workflow
async def buy(order: str, item: str, cents: int, country: str) -> str:
    try:
        async with AsyncExitStack() as undo:  # on exit, runs the callbacks, last first
            await reserve(order, item)
            undo.push_async_callback(release, order, item)
            await charge(order, cents)
            undo.push_async_callback(refund, order, cents)
            await ship.options(retry=Retry(never=NotApplied))(order, country)
            undo.pop_all()  # success: undo nothing
    except NotApplied as error:  # a cancelled run is undone too, and ends as cancelled
        return f"called off: {error}"
    return "on its way"


async def main() -> None:
    async with App("saga.db") as app, app.worker():
        teapot = await app.start(buy.options(id="order-1"), "order-1", "teapot", 2500, "Peru")
        shell = await app.start(buy.options(id="order-2"), "order-2", "shell", 900, "Atlantis")
        for run in (teapot, shell):
            print(f"{run.id}: {await run.result(timeout='1m')}\n", end="", flush=True)


if __name__ == "__main__":
    WORLD.touch()
    asyncio.run(main())
