"""Every test here runs on SQLite in memory, on a SQLite file and on Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["memory", "file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return ":memory:" if request.param == "memory" else str(tmp_path / "app.db")


@pytest.fixture
def app(url: str) -> App:
    return App(url)


@pytest.fixture
def memory() -> App:
    """An app for what has nothing to do with the database."""
    return App(":memory:")
