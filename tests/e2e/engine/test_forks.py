"""Processes that a worker has forked hold nothing of the store when the worker is killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.engine.pools import a_worker_that_forked_dies

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("seed", range(2))
async def test_others_can_write_when_a_worker_with_a_pool_of_processes_is_killed(
    crew: Crew, seed: int
) -> None:
    await a_worker_that_forked_dies(crew, seed)
