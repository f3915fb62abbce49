"""A fresh database of each kind, and a place where its workers leave traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.engine.outside import VARIABLE
from tests.e2e.engine.supervisor import Crew
from tests.kit.databases import postgres_template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["postgres_template"]


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
