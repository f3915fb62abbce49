"""Schedules while Postgres loses requests and replies, or does not answer for a while."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from onward import App, Schedule, workflow
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


async def slots_after(app: App, count: int) -> list[Slot]:
    """Wait for so many slots more than there are."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        target = None
        while True:
            try:
                slots = await app.schedules.slots("s")
            except LookupError:
                slots = []
            target = len(slots) + count if target is None else target
            if len(slots) >= target:
                return slots
            await asyncio.sleep(0.05)
