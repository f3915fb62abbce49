"""SIGKILL at every point around a send, held against what the outside has written down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.effects.kills import POINTS, PROMISES, die_at_every_point

if TYPE_CHECKING:
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew


@pytest.mark.parametrize("kind", PROMISES)
async def test_whatever_point_workers_die_at_nothing_is_sent_twice_without_proof(
    kind: str, crew: Crew, sink: Sink
) -> None:
    tally = await die_at_every_point(crew, sink, kind)

    assert tally.kills == len(POINTS)
    assert (tally.crashed, tally.applied) == (0, tally.effects)
    assert (tally.verdicts > 0) == (kind == "blind")
