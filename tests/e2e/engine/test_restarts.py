"""After kill -9 and a restart, runs go on: in a file at once, elsewhere when the lease is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.sweep import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.engine.supervisor import Crew


# In a file nobody waits for a lease, so there it may last longer than this test has patience.
@pytest.mark.parametrize(
    ("url", "options"), [("sqlite", ["--lease", "3600"]), ("postgres", [])], indirect=["url"]
)
async def test_a_run_goes_on_after_kill_9_and_a_restart(
    crew: Crew, log: Path, options: list[str]
) -> None:
    async with App(crew.url) as app:
        first = await crew.worker(*options)
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(log)) == 2)
        await first.kill()
        gate("gate").touch()

        await crew.worker()

        assert await run.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
