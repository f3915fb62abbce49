"""The conformance suite, whole, on SQLite in memory, SQLite in a file and a real Postgres."""

from __future__ import annotations

import pytest

from tests.conformance.suite import SUITE, World, live


@pytest.mark.parametrize("name", SUITE)
def test_the_store_conforms(name: str, world: World) -> None:
    live(world, SUITE[name])
