"""What a worker wants of a store that is away is tried again until it is done or given up."""

from __future__ import annotations

import asyncio

import pytest

from onward.errors import NotFound, StoreUnusable, Unavailable
from onward.runtime.worker.outage import TRYING, Outage
from onward.system.clock import SystemRandomness
from onward.telemetry.observer import SILENT, Observer


class Store:
    """A store that is away for so many calls."""

    def __init__(self, *refusals: Exception) -> None:
        self.refusals = list(refusals)
        self.calls = 0

    async def answer(self) -> str:
        self.calls += 1
        if self.refusals:
            raise self.refusals.pop(0)
        return "here"


AWAY = Unavailable("the database", "is away")
REFUSED = StoreUnusable("the database", "refused the password", "Check it")


def outage(observer: Observer = SILENT) -> Outage:
    return Outage("worker-1", SystemRandomness(), observer)


async def test_it_is_tried_again_until_the_store_is_back() -> None:
    store = Store(AWAY, REFUSED, AWAY)

    assert await outage().through(store.answer) == "here"
    assert store.calls == 4


async def test_an_answer_that_is_no_outage_is_an_answer() -> None:
    store = Store(NotFound("run", "r", "default"))

    with pytest.raises(NotFound):
        await outage().through(store.answer)


async def test_what_is_given_up_is_not_tried_again() -> None:
    store, ours = Store(*[AWAY] * 1000), outage()
    waiting = asyncio.ensure_future(ours.through(store.answer))
    await asyncio.sleep(0)

    ours.give_up()

    with pytest.raises(Unavailable):
        await waiting
    assert store.calls <= 2


def test_the_tries_get_rarer_but_leave_time_to_be_back_within_5_seconds() -> None:
    waits = [TRYING.delay_after(attempt, 1.0) / 1_000_000 for attempt in range(1, 40)]

    assert waits == sorted(waits)
    assert waits[0] < 0.2
    assert waits[-1] <= 1.5


async def test_the_next_outage_begins_with_a_short_wait_again() -> None:
    ours = outage()
    waits = [ours.met(AWAY) for _ in range(10)]
    ours.over()

    assert ours.met(AWAY) < 0.2 < waits[-1]
