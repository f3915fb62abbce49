"""Schedules with worker processes that race for their slots and are killed."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from onward import App, Schedule
from onward.core.instant import SECOND
from onward.core.run import TERMINAL
from onward.engine.schedules.retiming import new_anchor
from onward.model.schedules import NewSchedule
from onward.store import open_store
from onward.store.invariants import check
from onward.store.runs.schedules import insert_schedule
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.ticks import tick

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.schedules import Slot
    from onward.store import Store
    from tests.e2e.engine.supervisor import Crew

SCHEDULES = 10
SLOTS = 100


async def fall_behind(store: Store) -> list[str]:
    """Create schedules of every second that were last looked at a while ago."""
    names = [f"s{n}" for n in range(SCHEDULES)]
    begun = new_anchor(await store.now()) - SLOTS * SECOND
    for name in names:
        spec = Schedule(name, tick, every="1s", overlap="allow", catch_up="all").spec
        new = NewSchedule(spec, begun, begun, begun + SECOND)
        assert await store.write(partial(insert_schedule, new=new))
    return names


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until other processes have made something true."""
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while not await holds():  # noqa: ASYNC110 - it is other processes that we watch
            await asyncio.sleep(0.05)


async def slots_of(app: App, names: list[str]) -> dict[str, list[Slot]]:
    return {name: await app.schedules.slots(name, 10_000) for name in names}


async def is_caught_up(app: App, names: list[str]) -> bool:
    if sum((await app.counts()).values()) < SCHEDULES * SLOTS:  # cheaper than to read all slots
        return False
    return all(len(slots) >= SLOTS for slots in (await slots_of(app, names)).values())


def check_seconds(slots: list[Slot]) -> None:
    """Check that every second has its slot, once, and that each has a run."""
    instants = sorted(slot.at.timestamp() for slot in slots)
    gaps = {after - before for before, after in pairwise(instants)}
    assert gaps == {1.0}, "a slot is lost or doubled"
    assert {slot.disposition for slot in slots} == {"started"}


async def test_1000_slots_start_one_run_each_with_four_processes_of_which_one_is_killed(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        names = await fall_behind(store)
        processes = [crew.launch(*SHORT_LEASE) for _ in range(4)]

        async def is_begun() -> bool:
            return bool(await app.counts())

        await until(is_begun)
        await processes[0].kill()

        await until(partial(is_caught_up, app, names))
        for name in names:
            await app.schedules.pause(name)
        found = await slots_of(app, names)

        async def is_over() -> bool:
            counts = await app.counts()
            return all(state in TERMINAL or not count for state, count in counts.items())

        await until(is_over)
        assert await check(store) == []

    for slots in found.values():
        check_seconds(slots)
    ids = [slot.run for slots in found.values() for slot in slots]
    done = Counter(deed.run for deed in deeds(crew.log))
    assert len(set(ids)) == len(ids) == len(done)
    assert len({deed.pid for deed in deeds(crew.log)}) > 1


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_worker_that_dies_as_it_decides_leaves_every_slot_with_one_run(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        names = await fall_behind(store)
        for death in ("commit.before=kill@4", "commit.after=kill@6", "commit.before=kill@9"):
            dying = crew.launch(failpoints=death)
            await dying.status()
        crew.launch()

        await until(partial(is_caught_up, app, names))
        found = await slots_of(app, names)
        assert await check(store) == []
    for slots in found.values():
        check_seconds(slots)
