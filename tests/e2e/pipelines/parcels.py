"""Pipelines whose consumers send to the sink: a serial one, and a parallel one with five keys.

Events come from clients and from the producer, and each has one order at the sink per consumer.
"""

from __future__ import annotations

import asyncio
import random

from onward import Retry
from onward.errors import Retryable
from onward.pipelines import (
    Consumer,
    Event,
    MutateContext,
    NextContext,
    Outcome,
    Pipeline,
    PrepareContext,
    Prepared,
    ProducerContext,
)
from tests.e2e.effects.orders import blind, keyed, traced

SOON = Retry(attempts=50, delay="20ms", factor=1, max_delay="20ms")
MAX_BATCH = 3
KEYS = 5

parcels = Pipeline("parcels")
received = parcels.topic("parcels.received", str)
shipped = parcels.topic("parcels.shipped", str)


def order_of(handler: str, events: list[str]) -> str:
    """Return what the sink is sent for events that one run has reserved."""
    return f"{handler}:{','.join(events)}"


def fail_at_times(share: float = 0.05) -> None:
    """Fail, now and then, in a way that another try may fix."""
    if random.random() < share:
        raise Retryable("try again")


async def some(ctx: PrepareContext, limit: int) -> Prepared[list[str]]:
    """Reserve some of the oldest events."""
    events: list[Event[str]] = await ctx.peek(received, limit=limit)
    await asyncio.sleep(0)
    return Prepared(reserve=events, data=[event.id for event in events])


@parcels.producer(every="1h", publishes=[received], retry=SOON)
async def collect(ctx: ProducerContext, cursor: int | None) -> int:
    """Publish the next one, two or three events."""
    start = cursor or 0
    end = start + 1 + start % 3
    for number in range(start, end):
        source = ctx.input(source="yard", type="parcel", id=str(number), title=f"Parcel {number}")
        ctx.publish(
            received, "from the yard", id=f"yard-{number}", key=str(number % KEYS), input=source
        )
    fail_at_times()
    return end


@parcels.consumer(subscribes=[received], publishes=[shipped], retry=SOON)
class Ship(Consumer[int, list[str]]):
    """Sends up to three events in one order, and may fail after that."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[list[str]]:
        return await some(ctx, random.randint(1, MAX_BATCH))

    async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
        await traced(order_of("Ship", prepared.data))

    async def next(
        self, ctx: NextContext, prepared: Prepared[list[str]], outcome: Outcome
    ) -> int | None:
        fail_at_times()
        for event in prepared.reserve:
            ctx.publish(shipped, "shipped", id=event.id)
        return None


@parcels.consumer(subscribes=[shipped], retry=SOON)
class Count(Consumer[int, int]):
    """Counts events, and saves the count with the commit that consumes them."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[int]:
        events: list[Event[str]] = await ctx.peek(shipped, limit=10)
        return Prepared(reserve=events, data=(state or 0) + len(events))

    async def next(self, ctx: NextContext, prepared: Prepared[int], outcome: Outcome) -> int | None:
        fail_at_times()
        return prepared.data


stamps = Pipeline("stamps", parallel=True)


@stamps.consumer(subscribes=[received], retry=SOON)
class Stamp(Consumer[int, list[str]]):
    """Sends one event at a time, with a key that the sink applies once."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[list[str]]:
        return await some(ctx, 1)

    async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
        await keyed(order_of("Stamp", prepared.data))


@stamps.consumer(subscribes=[received], retry=SOON)
class Seal(Consumer[int, list[str]]):
    """Sends one event at a time; after a crash only an operator knows what happened."""

    async def prepare(self, ctx: PrepareContext, state: int | None) -> Prepared[list[str]]:
        return await some(ctx, 1)

    async def mutate(self, ctx: MutateContext, prepared: Prepared[list[str]]) -> None:
        await blind(order_of("Seal", prepared.data))


PIPELINES = (parcels, stamps)
SENDERS = ("parcels.Ship", "stamps.Stamp", "stamps.Seal")
"""The consumers that send each event of `received` to the sink."""
