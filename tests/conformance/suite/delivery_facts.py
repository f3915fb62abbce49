"""Deliveries: every fact about one in every state does in the store what the core says.

The delivery is that of one event for one handler. The facts are made by the writes of two runs of
that handler, of which the first is the one that has, or had, reserved the event.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from onward.core.decision import Moved
from onward.core.delivery import (
    MAX_RELEASES,
    Consumed,
    ConsumedWithoutEffect,
    Delivery,
    DeliveryState,
    HandedOver,
    Replayed,
    ReservationReleased,
    Reserved,
    SkippedByOperator,
    SkipReason,
    advance,
)
from onward.errors import PipelineBlocked
from onward.model.pipelines import Completion, PipelineWrite, Preparation, Reservation
from onward.model.runs import Move
from onward.store import Attachments
from onward.store.pipelines.operating import replay, skip
from tests.conformance.suite.families import each
from tests.conformance.suite.handler_ends import cancel_by_force, end_run
from tests.conformance.suite.pipeline import (
    ADD,
    TOPIC,
    a_step,
    complete,
    declare,
    launched,
    prepared,
    publish,
)
from tests.conformance.suite.samples import an_effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.core.delivery import Fact
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

HOLDER, OTHER = "holder", "other"


class Seen(NamedTuple):
    """A fact, and how a run makes it; the fact is given the uid of the run that follows, if any."""

    fact: Callable[[str, str], Fact]
    make: Callable[[Worker, ClaimedRun, Delivery], Awaitable[object]]


async def reserve(worker: Worker, run: ClaimedRun, before: Delivery) -> None:
    reserved = (Reservation("event-m1", before.attempt),)
    write = PipelineWrite(ADD, "", prepared=Preparation(reserved, 0, None, "origin"))
    await worker.commit(run, a_step(run, "reserve", 2), attached=Attachments(pipeline=write))


async def consume(worker: Worker, run: ClaimedRun, _: Delivery) -> None:
    await complete(worker, run)


async def consume_without_effect(worker: Worker, run: ClaimedRun, _: Delivery) -> None:
    await complete(worker, run, done=Completion(skips=True))


async def fail(worker: Worker, run: ClaimedRun, _: Delivery) -> None:
    await end_run(worker, run, Move("failed", "logic"))


async def give_back(worker: Worker, run: ClaimedRun, _: Delivery) -> None:
    await cancel_by_force(worker, run)


async def hand_over(worker: Worker, run: ClaimedRun, _: Delivery) -> None:
    await worker.commit(run, attached=Attachments(effects=(an_effect(run, 1, "applied"),)))
    await cancel_by_force(worker, run)


async def skip_event(worker: Worker, _: ClaimedRun, __: Delivery) -> None:
    with suppress(PipelineBlocked):
        await worker.store.write(lambda tx: skip(tx, TOPIC, ["m1"], None, "why", "ada"))


async def replay_event(worker: Worker, _: ClaimedRun, __: Delivery) -> None:
    await worker.store.write(lambda tx: replay(tx, TOPIC, ["m1"], None))


FACTS = {
    "reserved": Seen(lambda run, _: Reserved(run), reserve),
    "consumed": Seen(lambda run, _: Consumed(run), consume),
    "consumed without effect": Seen(
        lambda run, _: ConsumedWithoutEffect(run), consume_without_effect
    ),
    "released at fault": Seen(lambda run, _: ReservationReleased(run), fail),
    "released": Seen(lambda run, _: ReservationReleased(run, at_fault=False), give_back),
    "handed over": Seen(HandedOver, hand_over),
    "skipped": Seen(lambda _, __: SkippedByOperator(), skip_event),
    "replayed": Seen(lambda _, __: Replayed(), replay_event),
}
STATES = [
    *((state, 0) for state in DeliveryState),
    (DeliveryState.RESERVED, MAX_RELEASES - 1),
]
CASES = {
    f"{state} {releases}, {fact}, {by}": (state, releases, fact, by)
    for (state, releases), fact, by in product(STATES, FACTS, (HOLDER, OTHER))
}


async def read(world: World) -> Delivery:
    [row] = await world.sql(
        "SELECT state, run, attempt, releases, reason FROM onward_delivery WHERE event = 'event-m1'"
    )
    state, run, attempt, releases, reason = row
    why = None if reason is None else SkipReason(reason.partition(":")[0])
    return Delivery(DeliveryState(state), run, attempt, releases, why)


async def put(world: World, state: DeliveryState, run: str, releases: int) -> None:
    """Let the delivery be in a state to which the holder has brought it."""
    reason = "'quarantined'" if state is DeliveryState.SKIPPED else "NULL"
    holder = "NULL" if state is DeliveryState.PENDING else f"'{run}'"
    await world.sql(
        f"UPDATE onward_delivery SET state = '{state}', run = {holder}, releases = {releases},"
        f" attempt = 3, reason = {reason} WHERE event = 'event-m1'"
    )


@each(CASES)
async def test_a_fact_does_to_a_delivery_what_the_core_says(world: World, case: str) -> None:
    state, releases, name, by = CASES[case]
    world.spoiled = True  # two runs of one lane, and events that no run holds as it should
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")
    holder = await prepared(worker, "m1")
    await world.sql("UPDATE onward_run SET lane = uid")
    [other] = await launched(worker)
    await world.sql("UPDATE onward_run SET lane = uid")
    await put(world, state, holder.uid, releases)
    before = await read(world)
    run = holder if by == HOLDER else other

    await FACTS[name].make(worker, run, before)

    follower = (await worker.store.end(run.uid)).follower
    told = advance(before, FACTS[name].fact(run.uid, follower or ""))
    assert await read(world) == (told.to if isinstance(told, Moved) else before)
