"""A run that takes its worker down is stopped; those that were beside it are not."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.core.run import MAX_CRASHES
from onward.store import open_store
from tests.e2e.engine.gates import aborting, innocent, stumbling
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from onward import Run
    from tests.e2e.engine.supervisor import Crew

INNOCENTS = 99


async def test_a_crasher_among_99_innocents_is_the_only_one_that_ends_badly(crew: Crew) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        others = [await app.start(innocent, n) for n in range(INNOCENTS // 2)]
        crasher = await app.start(aborting)
        others += [await app.start(innocent, n) for n in range(INNOCENTS // 2, INNOCENTS)]

        await restart_until_all_are_over(crew, app)

        ends = Counter([(await store.run(run.uid)).state for run in others])
        assert ends == {"succeeded": INNOCENTS}
        end = await store.run(crasher.uid)
        assert (end.state, end.reason) == ("failed", "crashed")
        assert len([deed for deed in deeds(crew.log) if deed.run == crasher.uid]) == MAX_CRASHES
        await Witness(store).look()
        await all_results_are_right(others)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_run_that_gets_on_between_crashes_may_crash_more_often_than_that(
    crew: Crew,
) -> None:
    async with App(crew.url) as app:
        run = await app.start(stumbling, MAX_CRASHES + 1)

        await restart_until_all_are_over(crew, app)

        assert await run.result() == MAX_CRASHES + 1


async def restart_until_all_are_over(crew: Crew, app: App) -> None:
    """Keep one worker going, as a supervisor in production would."""
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        worker = crew.launch(*SHORT_LEASE)
        while set(await app.counts()) - {"succeeded", "failed"}:
            await asyncio.sleep(0.05)
            if worker.is_over:
                worker = crew.launch(*SHORT_LEASE)


async def all_results_are_right(runs: list[Run[int]]) -> None:
    for n, run in enumerate(runs):
        assert await run.result() == n * 2
