"""Every test here runs on SQLite in memory and on Postgres, and some on a SQLite file as well.

What a file adds to memory is tested by the conformance suite: locks, durability, other processes.
So only tests that restart, share or open a store themselves run on a file too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App

if TYPE_CHECKING:
    from pathlib import Path

ON_A_FILE_TOO = frozenset(
    {
        "clients.test_open_and_close",
        "clients.test_sync_client",
        "definitions.test_local_workflows",
        "deploys.test_versions",
        "effects.test_crashes",
        "effects.test_retry_within",
        "replay.test_live_and_replayed",
        "runs.test_counters_after_crash",
        "runs.test_info",
        "runs.test_runs",
        "signals.test_signals",
        "time.test_sleeps",
        "transactions.test_open_transactions",
        "transactions.test_refused_connections",
        "transactions.test_sync_transactions",
        "transactions.test_transactions",
        "workers.test_cancelled_worker",
        "workers.test_event_loops",
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test by its module, unless it names them itself."""
    named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "url" not in metafunc.fixturenames or "url" in named:
        return
    module = metafunc.module.__name__.removeprefix("tests.sdk.")
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
