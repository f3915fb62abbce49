"""Every test here runs on SQLite in memory and on Postgres, and some on a SQLite file as well.

A file differs from memory by what the store's own suite tests on all of them: locks, durability and
other processes. So only tests that restart, share or open a store themselves run on it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App

if TYPE_CHECKING:
    from pathlib import Path

ON_A_FILE_TOO = frozenset(
    {
        "test_cancelled_worker",
        "test_effects_crashed",
        "test_effects_within",
        "test_hosts",
        "test_info",
        "test_known",
        "test_notes_crash",
        "test_opening",
        "test_replayed",
        "test_runs",
        "test_signals",
        "test_sleeps",
        "test_sync",
        "test_versions",
        "test_within",
        "test_within_open",
        "test_within_refusals",
        "test_within_sync",
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test by its module, unless it names them itself."""
    named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "url" not in metafunc.fixturenames or "url" in named:
        return
    module = metafunc.module.__name__.rpartition(".")[2]
    file = ["file"] if module in ON_A_FILE_TOO else []
    metafunc.parametrize("url", ["memory", *file, "postgres"], indirect=True)


@pytest.fixture
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
