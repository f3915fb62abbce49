"""After kill -9 and a restart, runs go on soon: how soon is a promise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from onward import App
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.sweep import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.engine.supervisor import Crew


@pytest.mark.parametrize(
    ("url", "most_seconds"), [("sqlite", 1), ("postgres", 20)], indirect=["url"]
)
async def test_a_run_goes_on_after_kill_9_and_a_restart_with_default_settings(
    crew: Crew, log: Path, most_seconds: float
) -> None:
    async with App(crew.url) as app:
        first = await crew.worker()
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(log)) == 2)
        await first.kill()
        gate("gate").touch()

        await crew.worker()
        ready = time.monotonic()
        await until(lambda: len(deeds(log)) > 2)
        seconds = time.monotonic() - ready

        assert await run.result(timeout=10) == [2, "gate", 4]
        assert seconds < most_seconds
