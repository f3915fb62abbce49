"""Schedules while Postgres loses requests and replies, or does not answer for a while."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import asyncpg
import pytest

from onward import App, Schedule, workflow
from onward.core.instant import SECOND
from onward.engine.schedules.timing import slot_run_id
from onward.testing.proxy import LossyProxy
from tests.postgres.hand import STATEMENTS

if TYPE_CHECKING:
    from onward.schedules import Slot

PATIENCE_SECONDS = 60


@workflow
async def tick() -> None: ...


@pytest.mark.parametrize("trouble", ["lost requests", "lost replies", "no answers"])
async def test_every_slot_of_an_outage_has_one_run(postgres_url: str, trouble: str) -> None:
    every_second = Schedule("s", tick, every="1s", overlap="allow", catch_up="all")
    async with LossyProxy(postgres_url) as proxy, App(postgres_url) as eyes:
        app = App(proxy.url)
        async with app, app.worker(workflows=[tick], schedules=[every_second]):
            await slots_after(eyes, 1)
            if trouble == "no answers":
                proxy.freeze()
                await asyncio.sleep(2.5)
                proxy.thaw()
            else:
                lose = (
                    proxy.drop_request
                    if trouble == "lost requests"
                    else proxy.drop_reply_after_commit
                )
                fault = lose(STATEMENTS["save_schedule"].sql.encode())
                await asyncio.wait_for(fault.happened.wait(), PATIENCE_SECONDS)
            await slots_after(eyes, 5)
        slots = await eyes.schedules.slots("s")
        runs = {info.id for info in await eyes.runs()}
    gaps = {after.at.timestamp() - before.at.timestamp() for after, before in pairwise(slots)}
    assert gaps == {1.0}
    assert {slot.disposition for slot in slots} == {"started"}
    assert runs == {slot.run for slot in slots}


async def test_a_callers_open_transaction_on_the_run_of_a_slot_delays_that_schedule_alone(
    postgres_url: str,
) -> None:
    a, b = (Schedule(name, tick, every="1s", overlap="allow", catch_up="all") for name in "ab")
    app = App(postgres_url)
    async with app, app.worker(workflows=[tick], schedules=[a, b]):
        await slots_after(app, 1, "a")
        connection = await asyncpg.connect(postgres_url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            [slot] = await app.schedules.preview("a", 1)
            run_id = slot_run_id("a", int(slot.timestamp()) * SECOND, "UTC")
            await app.within(connection).start(tick.options(id=run_id))
            others = await slots_after(app, 4, "b")
            await app.run(tick)  # claims go on
            blocked = await app.schedules.slots("a")
            await transaction.rollback()
        finally:
            await connection.close()
        await slots_after(app, 4, "a")
        found = await app.schedules.slots("a")
    assert max(each.at for each in blocked) < slot
    assert max(each.lateness for each in others[:3]).total_seconds() < 2.5
    assert {each.run for each in found if each.at == slot} == {run_id}


async def slots_after(app: App, count: int, name: str = "s") -> list[Slot]:
    """Wait for so many slots more than there are."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        target = None
        while True:
            try:
                slots = await app.schedules.slots(name)
            except LookupError:
                slots = []
            target = len(slots) + count if target is None else target
            if len(slots) >= target:
                return slots
            await asyncio.sleep(0.05)
