"""Workers that are killed at random, again and again, cost time and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.engine.kills import kill_at_random

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


async def test_60_runs_of_every_shape_end_well_while_workers_are_killed_15_times(
    crew: Crew,
) -> None:
    tally = await kill_at_random(crew, runs=60, kills=15, seed=1)

    assert tally.runs == 60
    assert 0 < tally.repeated < tally.deeds / 2  # what was under way is done again, no more
