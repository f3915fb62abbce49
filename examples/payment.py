"""A card is charged once, although the gateway's reply is lost.

python examples/payment.py

Kill it at any point and start it again: Onward asks the gateway whether the card was charged and
never guesses. To start over, delete payment.db and payment.gateway (the gateway's own records).
"""

import asyncio
from pathlib import Path

from onward import App, Applied, NotApplied, Retry, effect, effect_key, step, workflow


class Gateway:
    """An external payment service with its own records and unreliable replies."""

    BOOKS = Path("payment.gateway")

    def __init__(self) -> None:
        self.calls = 0

    async def charge(self, card: str, cents: int, key: str) -> str:
        await asyncio.sleep(0.3)  # a network call
        self.calls += 1
        if self.calls == 1:
            raise NotApplied("the gateway is busy", after="200ms")  # certain: nothing happened
        with self.BOOKS.open("a") as books:
            books.write(f"{key} charge {len(self.booked()) + 1}: {cents} cents from {card}\n")
        print("    gateway: the card is charged", flush=True)
        if self.calls == 2:
            raise ConnectionError("the line went dead")  # charged, but the reply is lost
        return self.booked()[key]

    def booked(self) -> dict[str, str]:
        lines = self.BOOKS.read_text().splitlines() if self.BOOKS.exists() else []
        return {key: charge for key, _, charge in (line.partition(" ") for line in lines)}


gateway = Gateway()


async def find_charge(card: str, cents: int, *, key: str) -> Applied[str] | NotApplied:
    """Ask the gateway for the outcome of a call, by the same arguments and the key."""
    print(f"    asking the gateway: were {cents} cents taken from {card}?", flush=True)
    charge = gateway.booked().get(key)
    return NotApplied() if charge is None else Applied(charge)


# "Not applied" counts once a frozen worker can no longer send: after 4 seconds here, about a minute
# by default. "Applied" counts at once.
@effect(
    reconcile=find_charge, timeout="2s", settle="1s", start_within="1s", retry=Retry(attempts=5)
)
async def charge(card: str, cents: int) -> str:
    print(f"    charging {card}", flush=True)
    return await gateway.charge(card, cents, effect_key())


@step
async def pack(item: str) -> str:
    return f"{item} is packed"


@workflow
async def buy(item: str, cents: int) -> str:
    receipt = await charge("Ada's card", cents)  # it happened, or NotApplied is raised
    return f"{await pack(item)}, {receipt}"


async def main() -> None:
    app = App("payment.db")
    async with app, app.worker():
        run = await app.start(buy.options(id="order-1"), "teapot", 2500)
        print(await run.result(timeout="1m"))
        for kept in await app.effects.of(run.id):
            print(f"the ledger: {kept.name} was sent {kept.attempt} times, and is {kept.state}")
    print(f"the gateway's books: {len(gateway.booked())} charge")


if __name__ == "__main__":
    asyncio.run(main())
