"""An order as a saga: what was done is undone, in reverse, when a later part fails.

python examples/saga.py

Each part is an effect, forwards and backwards: if an answer gets lost, it is looked up what became
of the call, and nothing is done or undone twice. Kill it where you like and start it again: it goes
on where it was. To begin anew, delete saga.db and saga.world.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from onward import App, Applied, NotApplied, Retry, effect, effect_key, workflow

WORLD = Path("saga.world")  # what the shop, the bank and the shipper have done, with its keys


def do(text: str) -> None:
    time.sleep(0.3)  # stands for a call over the network
    with WORLD.open("a") as world:
        world.write(f"{effect_key()} {text}\n")  # they note it under the key that we give
    print(f"    {text}\n", end="", flush=True)  # in one piece: several threads print


def look_up(*_: object, key: str) -> Applied[None] | NotApplied:  # what became of a call?
    found = [line for line in WORLD.read_text().splitlines() if line.startswith(key)]
    print(f"    looked up: {found[0].partition(' ')[2] if found else 'nothing'}\n", end="")
    return Applied(None) if found else NotApplied()


# With these times a call that is proven not to have happened is made again after 4 seconds.
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
    raise ConnectionError("the bank's answer got lost")  # done, but nobody here knows: look it up


@careful
def ship(order: str, country: str) -> None:
    if country == "Atlantis":
        raise NotApplied("no ship goes to Atlantis")  # nothing happened, and that is for sure
    do(f"{order}: shipped to {country}")


@workflow
async def buy(order: str, item: str, cents: int, country: str) -> str:
    try:
        async with AsyncExitStack() as undo:  # calls what is pushed, last first, when it is left
            await reserve(order, item)
            undo.push_async_callback(release, order, item)
            await charge(order, cents)
            undo.push_async_callback(refund, order, cents)
            await ship.options(retry=Retry(attempts=1))(order, country)
            undo.pop_all()  # all is well: keep everything
    except NotApplied as error:  # a run that is cancelled is undone too, and ends as cancelled
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
