"""Tests here run on SQLite in memory or on Postgres or on both, and some on a SQLite file as well.

What a file adds to memory is tested by the conformance suite: locks, durability, other processes.
So only tests that restart, share or open a store themselves run on a file too.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from onward import App
from tests.kit.databases import postgres_template
from tests.kit.servers import ServerThread, StoreBehindServer, server_thread
from tests.sdk.remote import ALSO_REMOTE, NOT_REMOTE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["postgres_template"]

ON_A_FILE_TOO = frozenset(
    {
        "clients.test_open_and_close",
        "clients.test_sync_client",
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


# Rules of the API and of the runtime, which reach the store through calls that others test.
IN_MEMORY_ONLY = frozenset(
    {
        "cancel.test_swallowed_cancel",
        "children.test_inherited_options",
        "children.test_nesting",
        "definitions.test_app_in_body",
        "definitions.test_local_workflows",
        "definitions.test_misplaced_calls",
        "definitions.test_names",
        "deploys.test_divergence",
        "effects.test_approval",
        "effects.test_branches",
        "effects.test_changed_code",
        "effects.test_children",
        "effects.test_idempotency_window",
        "effects.test_idempotency_window_combined",
        "effects.test_misbehaving_handlers",
        "effects.test_reconcile",
        "effects.test_telemetry",
        "forks.test_forked_effects",
        "maps.test_map_keys",
        "pause.test_pause_children",
        "replay.test_history_limit",
        "replay.test_repeated_randomness",
        "retries.test_retry_after_undo",
        "retries.test_retry_failed_calls",
        "retries.test_retry_keeps_finished_branches",
        "retries.test_step_retries",
        "signals.test_waits",
        "steps.test_as_completed",
        "steps.test_methods",
        "steps.test_repeated_keys",
        "steps.test_step_arguments",
        "steps.test_step_timeouts",
        "steps.test_steps",
        "steps.test_threads",
        "telemetry.test_attention",
        "telemetry.test_logs_and_metrics",
        "telemetry.test_spans",
        "workers.test_blocking_code",
        "workers.test_freed_memory",
    }
)


# What these write is decided by calls that the conformance suite tests on every database. Each of
# their tests runs on one of two, so that both see half of the ways in which a worker puts such
# calls together.
ALTERNATING = frozenset(
    {
        "cancel.test_cancel",
        "cancel.test_deadlines",
        "children.test_cancel_with_parent",
        "children.test_children",
        "children.test_started_runs",
        "deploys.test_rerouted_steps",
        "effects.test_effects",
        "effects.test_stopped_runs",
        "effects.test_verdicts",
        "maps.test_maps",
        "retries.test_retry_runs",
        "runs.test_abbreviated_ids",
        "runs.test_attributes_and_counters",
        "runs.test_conflicts",
        "runs.test_lineage_promises",
        "runs.test_progress",
    }
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test by its module, unless it names them itself."""
    named = {mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")}
    if "url" not in metafunc.fixturenames or "url" in named:
        return
    module = metafunc.module.__name__.removeprefix("tests.sdk.")
    remote = metafunc.config.getoption("remote")
    if remote is not None:
        chosen = [f"remote-{remote}"]
    else:
        chosen = databases(module, metafunc.function.__name__)
        chosen += ["remote-file"] if module in ALSO_REMOTE else []
    metafunc.parametrize("url", chosen, indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--remote`, leave out the tests that cannot run through a server."""
    if config.getoption("remote") is None:
        return
    left_out = [item for item in items if why_not_remote(item) is not None]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if why_not_remote(item) is None]


def why_not_remote(item: pytest.Item) -> str | None:
    """Return why a test cannot run through a server; None if it can."""
    module = item.nodeid.partition("::")[0].removeprefix("tests/sdk/").removesuffix(".py")
    module = module.replace("/", ".")
    name = getattr(item, "originalname", item.name)
    fixtures: list[str] = getattr(item, "fixturenames", [])
    if "url" not in fixtures and "memory" not in fixtures:
        return "it takes no App"
    return NOT_REMOTE.get(module) or NOT_REMOTE.get(f"{module}.{name}")


def databases(module: str, test: str) -> list[str]:
    """Return the databases that a test of a module runs on."""
    if module in IN_MEMORY_ONLY:
        return ["memory"]
    if module in ALTERNATING:
        return ["memory"] if crc32(test.encode()) % 2 else ["postgres"]
    return ["memory", "file", "postgres"] if module in ON_A_FILE_TOO else ["memory", "postgres"]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    if request.param.startswith("remote-"):
        return served(request, tmp_path, request.param.removeprefix("remote-"))
    return ":memory:" if request.param == "memory" else str(tmp_path / "app.db")


@pytest.fixture
def app(url: str) -> App:
    return App(url)


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    """An app for what has nothing to do with the database."""
    remote = request.config.getoption("remote")
    return App(":memory:" if remote is None else served(request, tmp_path, remote))


def served(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    """Return the address of a server for a database of its own, until the test ends."""
    database = str(tmp_path / "app.db")
    if kind == "postgres":
        database = request.getfixturevalue("postgres_url")
    # The server logs in this process, but its log is not the one that a test looks at.
    logger = logging.getLogger("onward.server")
    request.addfinalizer(partial(logger.setLevel, logger.level))
    logger.setLevel(logging.ERROR)
    serving = request.getfixturevalue("servers").serve(database)
    request.addfinalizer(lambda: serving.__exit__(None, None, None))
    patch = request.getfixturevalue("monkeypatch")
    store = StoreBehindServer(database)
    patch.setattr("onward.wire.remote_client.RemoteClient.store", store, raising=False)
    address: str = serving.__enter__()
    return address


@pytest.fixture(scope="session")
def servers() -> Iterator[ServerThread]:
    """What runs the servers of tests."""
    with server_thread() as thread:
        yield thread


@pytest.fixture
def server_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a server on a SQLite file."""
    return served(request, tmp_path, "file")
