"""A fresh database of each kind, and a place where its workers leave traces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.store import open_store
from tests.e2e.engine.outside import VARIABLE
from tests.e2e.engine.supervisor import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onward.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A database that is migrated already, copied for each test."""

    async def migrate(url: str) -> None:
        async with open_store(url):
            pass

    return postgres_server.template("engine", lambda url: asyncio.run(migrate(url)))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that only this test uses."""
    if request.param == "sqlite":
        return str(tmp_path / "onward.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where steps write down what they did, in this process and in those it starts."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "outside.log"))
    return tmp_path / "outside.log"


@pytest.fixture
def crew(url: str, log: Path) -> Iterator[Crew]:
    """Worker processes on the database; none of them outlives the test."""
    with Crew(url, log) as crew:
        yield crew
