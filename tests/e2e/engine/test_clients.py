"""What a client hears of runs that others work on, or nobody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.errors import NoWorker
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.shapes import sequence
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.sweep import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.engine.supervisor import Crew


async def test_a_run_that_nobody_serves_says_so_after_5_seconds_and_stays(
    url: str, log: Path
) -> None:
    async with App(url) as app:
        with pytest.raises(NoWorker, match="no worker serves queue 'lonely'"):
            await app.run(sequence.options(id="kept", queue="lonely"), 1)

        run = await app.get("kept")
        assert await run.state() == "ready"
        async with app.worker(queues=["lonely"]):
            assert await run.result(timeout=PATIENCE_SECONDS) == 32


async def test_a_result_made_by_another_process_arrives_by_hint(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.engine.results.POLL_SECONDS", 3600.0)
    async with App(crew.url) as app:
        await crew.worker()
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(crew.log)) == 2)
        result = asyncio.create_task(run.result(timeout=PATIENCE_SECONDS))
        await asyncio.sleep(0.1)  # it has looked once, and found nothing
        gate("gate").touch()

        assert await result == [2, "gate", 4]
