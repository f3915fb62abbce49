"""Pipelines whose workers are killed at random: no event is lost, and none is handled twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.pipelines.kills import kill_pipelines

if TYPE_CHECKING:
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew


async def test_each_event_is_handled_once_while_workers_are_killed(crew: Crew, sink: Sink) -> None:
    tally = await kill_pipelines(crew, sink, events=15, kills=5, seed=1)

    assert tally.kills == 5
    assert tally.events > 15  # the producer has published as well
