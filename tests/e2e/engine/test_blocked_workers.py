"""A run that blocks the event loop of its worker does not hold up the other runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.runtime.worker.process import EXIT_STUCK
from onward.store import open_store
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.stalls import blocking, blocking_in_step, spinning
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import until
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from onward import Workflow
    from tests.e2e.engine.supervisor import Crew

COUNT = 20
STALL = ("--stall", "1")
STUCK = ("--stall", "0.5", "--stall-limit", "1", "--exit-when-stuck")


@pytest.mark.parametrize("blocker", [blocking, blocking_in_step], ids=lambda each: each.name)
async def test_the_runs_beside_a_blocked_one_continue_on_another_worker(
    crew: Crew, blocker: Workflow[[str], int]
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        witness = Witness(store)
        first = await crew.worker(*STALL)
        innocent = [await app.start(gated, "gate") for _ in range(COUNT)]
        await until(lambda: len(deeds(crew.log)) == 2 * COUNT)
        blocked = await app.start(blocker, "blocker")
        await until(gate(f"blocker.{first.pid}.blocked").exists)
        gate("gate").touch()
        await witness.look()

        second = await crew.worker(*STALL)

        results = await asyncio.gather(*(run.result(timeout=PATIENCE_SECONDS) for run in innocent))
        assert results == [[2, "gate", 4]] * COUNT
        assert not gate(f"blocker.{second.pid}.blocked").exists()
        infos = [await run.info() for run in innocent]
        assert {info.crashes for info in infos} == {0}
        await witness.look()

        gate("blocker").touch()
        assert await blocked.result(timeout=PATIENCE_SECONDS) == first.pid
        again = await app.start(gated, "gate")
        assert await again.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
        await witness.look()


async def test_a_worker_that_is_blocked_for_too_long_exits_and_its_run_has_crashed(
    crew: Crew,
) -> None:
    async with App(crew.url) as app:
        run = await app.start(spinning)

        for crashes in range(2):
            worker = crew.launch(*SHORT_LEASE, *STUCK)
            assert await worker.status() == EXIT_STUCK
            info = await run.info()
            assert info.crashes == crashes
            assert info.error is not None
            assert f"run {run.id} blocked its worker for 1 s at" in info.error
            assert "stalls.py" in info.error
