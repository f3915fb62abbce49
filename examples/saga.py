"""An order as a saga: what was done is undone, in reverse, when a later step fails.

python examples/saga.py

Kill it where you like and start it again: an order goes on where it was, forwards or backwards, and
no step that was recorded is done twice. To begin anew, delete saga.db.
"""

import asyncio
from contextlib import AsyncExitStack

from onward import App, Fatal, Retry, StepFailed, step, workflow


def tell(text: str) -> None:
    print(f"    {text}", flush=True)


@step
async def reserve(order: str, item: str) -> None:
    await asyncio.sleep(0.3)  # stands for a call over the network
    tell(f"{order}: reserved a {item}")


@step
async def release(order: str, item: str) -> None:
    tell(f"{order}: released the {item}")


@step
async def charge(order: str, cents: int) -> str:
    await asyncio.sleep(0.3)
    tell(f"{order}: charged {cents} cents")
    return f"receipt for {order}"


@step
async def refund(order: str, receipt: str) -> None:
    tell(f"{order}: gave the money back against the {receipt}")


@step(retry=Retry(attempts=3, first="200ms"))
async def ship(order: str, country: str) -> str:
    await asyncio.sleep(0.3)
    if country == "Atlantis":
        raise Fatal("no ship goes to Atlantis")  # not tried again; anything else would be
    tell(f"{order}: shipped to {country}")
    return f"parcel of {order}"


@workflow
async def buy(order: str, item: str, cents: int, country: str) -> str:
    try:
        async with AsyncExitStack() as undo:  # calls what is pushed, last first, when it is left
            await reserve(order, item)
            undo.push_async_callback(release, order, item)
            receipt = await charge(order, cents)
            undo.push_async_callback(refund, order, receipt)
            parcel = await ship(order, country)
            undo.pop_all()  # all is well: keep everything
    except StepFailed as failed:  # a run that is cancelled is undone too, and ends as cancelled
        return f"called off: {failed.message}"
    return f"{parcel} is on its way"


async def main() -> None:
    app = App("saga.db")
    async with app, app.worker():
        teapot = await app.start(buy.options(id="order-1"), "order-1", "teapot", 2500, "Peru")
        shell = await app.start(buy.options(id="order-2"), "order-2", "shell", 900, "Atlantis")
        for run in (teapot, shell):
            print(f"{run.id}: {await run.result(timeout='1m')}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
