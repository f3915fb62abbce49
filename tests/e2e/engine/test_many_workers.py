"""Workers beside one another, in one process and in several, do each thing once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.store import open_store
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.shapes import SHAPES, SIGNAL, go, signalled
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from typing import Any

    from onward import Run
    from tests.e2e.engine.supervisor import Crew

RUNS = 200


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_200_runs_end_well_with_two_workers_in_each_of_three_processes(crew: Crew) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        processes = [crew.launch("--workers", "2", "--slots", "10") for _ in range(3)]
        for process in processes:
            await process.up()
        started = [(await start(app, n), SHAPES[n % len(SHAPES)], n) for n in range(RUNS)]

        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            for run, shape, n in started:
                assert await run.result() == shape.comes_to(n)

        await Witness(store).look()
        done = Counter((deed.run, deed.identity, deed.attempt) for deed in deeds(crew.log))
        assert set(done.values()) == {1}, "nobody vanished, so nothing was done twice"
        assert len({deed.pid for deed in deeds(crew.log)}) > 1, "one process did all the work"


async def start(app: App, n: int) -> Run[Any]:
    shape = SHAPES[n % len(SHAPES)]
    run = await app.start(shape.workflow, n)
    if shape.workflow is signalled:
        await run.signal(go, SIGNAL)
    return run


async def test_two_workers_of_one_app_share_its_runs(url: str, log: object) -> None:
    async with App(url) as app, app.worker(slots=2), app.worker(slots=2):
        runs = [await start(app, n) for n in range(18)]
        for n, run in enumerate(runs):
            assert await run.result(timeout=PATIENCE_SECONDS) == SHAPES[n % len(SHAPES)].comes_to(n)
