"""A card is charged once, though the gateway's answer gets lost on the way.

python examples/payment.py

Kill it where you like and start it again: whether the card is charged is asked, never guessed. To
begin anew, delete payment.db and payment.gateway, which is what the gateway has in its books.
"""

import asyncio
from pathlib import Path

from onward import App, Applied, NotApplied, Retry, effect, effect_key, step, workflow


class Gateway:
    """A payment service of another company: it has its own books, and answers when it likes."""

    BOOKS = Path("payment.gateway")

    def __init__(self) -> None:
        self.calls = 0

    async def charge(self, card: str, cents: int, key: str) -> str:
        await asyncio.sleep(0.3)  # stands for the network
        self.calls += 1
        if self.calls == 1:
            raise NotApplied("the gateway is busy", after="200ms")  # it said so: nothing happened
        with self.BOOKS.open("a") as books:
            books.write(f"{key} charge {len(self.booked()) + 1}: {cents} cents from {card}\n")
        print("    gateway: the card is charged", flush=True)
        if self.calls == 2:
            raise ConnectionError("the line went dead")  # charged, but nobody hears of it
        return self.booked()[key]

    def booked(self) -> dict[str, str]:
        lines = self.BOOKS.read_text().splitlines() if self.BOOKS.exists() else []
        return {key: charge for key, _, charge in (line.partition(" ") for line in lines)}


gateway = Gateway()


async def find_charge(card: str, cents: int, *, key: str) -> Applied[str] | NotApplied:
    """Ask the gateway what became of a call; it gets the same arguments, and the key."""
    print(f"    asking the gateway: were {cents} cents taken from {card}?", flush=True)
    charge = gateway.booked().get(key)
    return NotApplied() if charge is None else Applied(charge)


# A "not applied" counts when a worker that froze can no longer send: 4 seconds here, a minute if
# you say nothing. An "applied" counts at once.
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
    receipt = await charge("Ada's card", cents)  # no try: here it happened, or NotApplied is raised
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
