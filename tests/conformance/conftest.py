"""Databases for the conformance tests, migrated beforehand where that saves time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.store import open_store
from tests.conformance.worlds import FileWorld, MemoryWorld, PostgresWorld

if TYPE_CHECKING:
    from pathlib import Path

    from onward.testing.postgres import PostgresServer
    from tests.conformance.suite import World


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A database that is migrated already, copied for each test."""

    async def migrate(url: str) -> None:
        async with open_store(url):
            pass

    return postgres_server.template("migrated", lambda url: asyncio.run(migrate(url)))


@pytest.fixture(
    params=["sqlite in memory", "sqlite without threads", "sqlite in a file", "postgres"]
)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A fresh database of each kind."""
    match request.param:
        case "sqlite in memory":
            return MemoryWorld()
        case "sqlite without threads":
            return MemoryWorld(spawn=None)
        case "sqlite in a file":
            return FileWorld(tmp_path / "onward.db")
    return PostgresWorld(request.getfixturevalue("postgres_url"))
