"""Limits hold while workers die, and the slots of dead workers are free again with their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.engine.narrows import MAX_QUEUE, kill_under_limits

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


async def test_every_limit_is_reached_and_none_exceeded_under_four_kills(crew: Crew) -> None:
    tally = await kill_under_limits(crew, runs=48, kills=4, seed=7)

    assert tally.crashed == 0
    assert tally.reached["queue default"] == f"{MAX_QUEUE} of {MAX_QUEUE}"
