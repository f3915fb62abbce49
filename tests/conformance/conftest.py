"""Databases for the conformance tests, migrated beforehand where that saves time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.worlds import FileWorld, MemoryWorld, PostgresWorld
from tests.kit.databases import postgres_template

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.suite import World

__all__ = ["postgres_template"]


@pytest.fixture(params=["sqlite in memory", "sqlite in a file", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A fresh database of each kind; the one in memory has no threads, the file has."""
    match request.param:
        case "sqlite in memory":
            return MemoryWorld()
        case "sqlite in a file":
            return FileWorld(tmp_path / "onward.db")
    return PostgresWorld(request.getfixturevalue("postgres_url"))
