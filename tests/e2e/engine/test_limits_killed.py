"""Limits hold while workers die, and the slots of dead workers are free again with their runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.engine.narrows import MAX_HELD, MAX_NARROW, kill_under_limits

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


async def test_no_limit_is_exceeded_and_no_slot_lost_under_four_kills(crew: Crew) -> None:
    tally = await kill_under_limits(crew, runs=48, kills=4, seed=7)

    assert tally.crashed == 0
    assert tally.most["narrow"] <= MAX_NARROW
    assert tally.most["narrow_held"] <= MAX_HELD
