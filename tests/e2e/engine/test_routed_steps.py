"""Routed steps in worker processes: slots are freed with a dead worker, results come at once."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING

from onward import App
from tests.e2e.engine.gates import asks_elsewhere, gate, limited
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import until

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew

LEASE_SECONDS = 1.0
# Takeover, the polls of the other worker, and a busy machine.
SLACK_SECONDS = 8.0


async def test_the_slots_of_a_limit_are_free_when_the_lease_of_a_dead_worker_is_over(
    crew: Crew,
) -> None:
    async with App(crew.url) as app:
        first = await crew.worker(*SHORT_LEASE)
        runs = [await app.start(limited, "narrow") for _ in range(6)]
        await until(lambda: len(deeds(crew.log)) == 2)
        second = await crew.worker(*SHORT_LEASE)
        await first.kill()
        gate("narrow").touch()
        began = time.monotonic()

        pids = await asyncio.gather(*(run.result(timeout=PATIENCE_SECONDS) for run in runs))

        assert time.monotonic() - began < LEASE_SECONDS + SLACK_SECONDS
        assert set(pids) == {second.pid}


async def test_a_step_that_another_process_executes_comes_back_at_once(crew: Crew) -> None:
    async with App(crew.url) as app, app.worker(workflows=[asks_elsewhere], queues=["here"]):
        other = await crew.worker()
        took = []
        for _ in range(5):
            began = time.monotonic()
            assert await app.run(asks_elsewhere.options(queue="here")) == other.pid
            took.append(time.monotonic() - began)

    assert median(took) < 0.9  # less than a poll without hints
