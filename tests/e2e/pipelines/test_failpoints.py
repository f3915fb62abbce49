"""SIGKILL around the commits of prepare, of the effect and of next: another worker finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.pipelines.deaths import die_around_commits

if TYPE_CHECKING:
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew


async def test_a_worker_that_dies_around_a_commit_of_a_consumer_repeats_nothing(
    crew: Crew, sink: Sink
) -> None:
    left = await die_around_commits(crew, sink)

    # Another worker may have taken a run over before its phase was read.
    assert len(left & {"prepared", "mutating", "mutated"}) >= 2
