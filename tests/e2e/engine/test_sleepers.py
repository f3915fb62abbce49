"""Sleeping holds no slot, survives restarts, counts as no crash, and repeats nothing."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from onward import App, Signal, step, workflow
from onward.core.instant import HOUR, MINUTE
from onward.core.run import MAX_CRASHES
from onward.runtime.worker.options import Options
from onward.store import open_store
from onward.testing.clock import VirtualClock
from tests.e2e.engine.hands import working
from tests.e2e.engine.outside import note, times_done
from tests.e2e.engine.shapes import double
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.witness import Witness
from tests.kit.watching import until_state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SLEEPS = 1000
ROUNDS = 100

go_on = Signal("go on")


@workflow
async def hour_long() -> int:
    before = await double(1)
    await asyncio.sleep(3600)
    return await double(before)


@workflow
async def quick() -> int:
    return await double(5)


@workflow
async def restless(times: int) -> int:
    for _ in range(times):
        await asyncio.sleep(0.001)
    return times


@step
async def tidy(what: int) -> int:
    note()
    return what


@asynccontextmanager
async def borrowed(n: int) -> AsyncIterator[int]:
    try:
        yield await tidy(n)
    finally:
        await tidy(-n)


@workflow
async def careful(times: int) -> list[int]:
    """Wait inside everything that runs code on the way out."""
    found = []
    for n in range(1, times + 1):
        try:
            async with borrowed(n) as it:
                await go_on.wait()
                found.append(it)
        finally:
            found.append(await tidy(1000 + n))
    return found


async def test_a_sleep_of_an_hour_holds_no_slot_and_survives_a_restart(
    tmp_path: Path, log: Path
) -> None:
    clock = VirtualClock()
    url = str(tmp_path / "onward.db")
    async with App(url, clock=clock) as app, app.worker(slots=1):
        sleepers = [await app.start(hour_long.options(id=f"sleeper-{n}")) for n in range(3)]
        assert await app.run(quick) == 10  # in the one slot that there is
        while await app.counts() != {"waiting": 3, "succeeded": 1}:  # noqa: ASYNC110 - it will
            await asyncio.sleep(0.01)
    clock.advance(HOUR - MINUTE)
    async with App(url, clock=clock) as app, app.worker(slots=1):
        assert await app.run(quick) == 10
        assert (await app.counts())["waiting"] == 3
    clock.advance(2 * MINUTE)
    async with App(url, clock=clock) as app, app.worker(slots=1):
        for sleeper in sleepers:
            run = await app.get(sleeper.id)
            assert await run.result(timeout=PATIENCE_SECONDS) == 4
            assert set(times_done(log, run.uid).values()) == {1}


async def test_1000_sleeps_in_one_run_count_as_no_crash(url: str, log: Path) -> None:
    async with open_store(url) as store, App(url) as app, app.worker():
        run = await app.start(restless, SLEEPS)
        assert await run.result(timeout=2 * PATIENCE_SECONDS) == SLEEPS

        row = await store.run(run.uid)
        assert row.crashes == 0
        assert row.fence > MAX_CRASHES, "it was hardly ever given back"
        await Witness(store).look()


async def test_what_is_done_on_the_way_out_is_done_once_however_often_a_body_is_evicted(
    url: str, log: Path
) -> None:
    async with open_store(url) as store, App(url) as app, working(url, Options(warm=0)):
        run = await app.start(careful, ROUNDS)
        for _ in range(ROUNDS):
            await until_state(run, "waiting")  # nothing of it is in memory any more
            await run.signal(go_on)
        found = await run.result(timeout=PATIENCE_SECONDS)

        assert found == [part for n in range(1, ROUNDS + 1) for part in (n, 1000 + n)]
        assert set(times_done(log, run.uid).values()) == {1}
        steps = [record for record in await run.history() if record.kind == "step"]
        assert len(steps) == 3 * ROUNDS
        assert len({record.identity for record in steps}) == len(steps)
        assert (await store.run(run.uid)).fence > ROUNDS, "it was not evicted often enough"
