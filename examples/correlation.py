"""Correlation: an order and its payment arrive in two topics, and are handled together.

python examples/correlation.py

Neither waits for long in memory: what has no partner yet stays pending in its topic.
"""

import asyncio
from dataclasses import dataclass

from onward import App, Consumer, Outcome, Pipeline, Prepared, effect
from onward.pipelines import Event, MutateContext, NextContext, PrepareContext


@dataclass(frozen=True)
class Order:
    item: str


@dataclass(frozen=True)
class Payment:
    cents: int


shop = Pipeline("shop")
orders = shop.topic("order.placed", Order)
payments = shop.topic("payment.received", Payment)
shipped = shop.topic("order.shipped", str)


@effect
async def ship(order: str, item: str) -> str:
    """Hand a parcel to the carrier."""
    print(f"    shipping {item} for {order}", flush=True)
    return f"parcel of {order}"


@shop.consumer(subscribes=[orders, payments], publishes=[shipped])
class Ship(Consumer[None, Order]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[Order]:
        paid = {event.id: event for event in await ctx.peek(payments, limit=1000)}
        for order in await ctx.peek(orders, limit=1000):
            if order.id in paid:  # both events are reserved, or neither
                pair: list[Event[Order] | Event[Payment]] = [order, paid[order.id]]
                return Prepared(reserve=pair, data=order.payload, title=f"Ship order {order.id}")
        return Prepared()  # this runs again when another event arrives

    async def mutate(self, ctx: MutateContext, prepared: Prepared[Order]) -> None:
        await ship(prepared.reserve[0].id, prepared.data.item)

    async def next(self, ctx: NextContext, prepared: Prepared[Order], outcome: Outcome) -> None:
        if prepared.reserve:
            order = prepared.reserve[0].id
            ctx.publish(shipped, prepared.data.item, id=order)


@shop.consumer(subscribes=[shipped])
class Announce(Consumer[None, None]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
        events = await ctx.peek(shipped)
        for event in events:
            print(f"order {event.id} is on its way: {event.payload}", flush=True)
        return Prepared(reserve=events)


async def consumed(app: App) -> int:
    """Return how many events were handled."""
    return (await app.topics.counts(shipped))["shop.Announce"]["consumed"]


async def main() -> None:
    app = App("correlation.db")
    async with app, app.worker(pipelines=[shop]):
        await app.publish(orders, Order("tea"), id="order-1")
        await app.publish(orders, Order("cake"), id="order-2")
        await app.publish(payments, Payment(300), id="order-2")
        await app.publish(payments, Payment(900), id="order-3")
        await app.publish(payments, Payment(200), id="order-1")
        while await consumed(app) < 2:  # noqa: ASYNC110 - the worker consumes them
            await asyncio.sleep(0.05)
        [unpaired] = await app.topics.peek(payments)
        print(f"{unpaired.id} was paid, but not ordered", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
