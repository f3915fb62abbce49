"""A worker dies around the commit of a cached result: others find it whole, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import SHORT_LEASE
from tests.e2e.engine.ticks import look_up

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew

COUNT = 20_000
"""The result takes many pages of the database."""


@pytest.mark.parametrize(
    ("death", "is_cached"), [("step.after=kill", False), ("deliver.before=kill", True)]
)
async def test_a_result_is_cached_if_it_is_recorded(
    crew: Crew, death: str, is_cached: bool
) -> None:
    async with App(crew.url) as app:
        first = await app.start(look_up, COUNT)
        assert await crew.launch(*SHORT_LEASE, failpoints=death).status() < 0
        assert len(await app.cache.list()) == is_cached
        crew.launch(*SHORT_LEASE)
        assert await first.result(timeout=40) == list(range(COUNT))

        assert await app.run(look_up, COUNT) == list(range(COUNT))

    assert len(deeds(crew.log)) == (1 if is_cached else 2)  # the second run never does it
