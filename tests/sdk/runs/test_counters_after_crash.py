"""Counts are exact although workers die."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from onward import App
from tests.kit.watching import check_database
from tests.sdk.runs.crashing import DIED


def work_until_death(database: str, markers: Path) -> int:
    command = [sys.executable, "-m", "tests.sdk.runs.crashing", database, str(markers)]
    home = Path(__file__).parents[3]
    return subprocess.run(command, timeout=60, check=False, cwd=home).returncode


async def test_counts_are_exact_although_workers_die_in_a_step_and_in_a_body(
    tmp_path: Path,
) -> None:
    database = str(tmp_path / "app.db")

    ends = [await asyncio.to_thread(work_until_death, database, tmp_path) for _ in range(3)]

    assert ends == [DIED, DIED, 0]
    async with App(database) as app:
        info = await (await app.get("count")).info()
        assert info.counters == {"begun": 1, "living": 2, "dying": 1, "almost": 1, "ended": 1}
        await check_database(app)
