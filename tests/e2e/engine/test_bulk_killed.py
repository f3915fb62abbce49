"""A bulk action survives the death of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.engine.bulks import retry_in_bulk

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


async def test_a_bulk_retry_of_450_runs_killed_twice_retries_each_run_once(crew: Crew) -> None:
    tally = await retry_in_bulk(crew, runs=450, kills=2)

    assert tally.claims >= 3
    assert (tally.done, tally.refused) == (405, 45)
