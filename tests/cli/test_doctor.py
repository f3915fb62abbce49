"""`onward doctor` finds planted faults in real databases, and nothing in a healthy one."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from typing import TYPE_CHECKING

import asyncpg
import pytest

from onward import App, Signal, step, workflow
from onward.store import invariants
from onward.store.sqlite.library import sqlite3
from tests.cli.conftest import shortened
from tests.kit.deploys import waits_for

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

go: Signal[None] = Signal("go")
NOW = int(time.time() * 1_000_000)
HOUR = 3_600_000_000


@step
async def weigh() -> int:
    return 1


@workflow(name="doctor.hold")
async def hold() -> int:
    weight = await weigh()
    await go.wait()
    return weight


@workflow(name="doctor.count")
async def count() -> int:
    return await weigh()


async def fill(url: str) -> None:
    """Leave one run that has ended and one that waits."""
    app = App(url)
    async with app, app.worker(workflows=[hold, count]):
        await app.run(count.options(id="count-1"))
        await waits_for(await app.start(hold.options(id="hold-1")), "go")


async def execute(url: str, *statements: str) -> None:
    if not url.startswith("postgres"):
        with closing(sqlite3.connect(url, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)
        return
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET search_path TO onward")
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def live(worker: str, version: str = "NULL", started: int = NOW) -> tuple[str, str]:
    """Return statements that add a worker which is alive for an hour."""
    return (
        "INSERT INTO onward_lease (namespace, worker, renewed_at, length, steady_since) "
        f"VALUES ('default', '{worker}', {NOW}, {HOUR}, {NOW})",
        "INSERT INTO onward_worker "
        "(namespace, worker, host, pid, version, queues, names, started_at) VALUES "
        f"('default', '{worker}', 'h', 1, {version}, 'default', 'doctor.hold', {started})",
    )


HELD = "WHERE id = 'hold-1'"
FAULTS = {
    "schema": ["UPDATE onward_meta SET value = 999 WHERE name = 'schema'"],
    "limbo": ["DELETE FROM onward_record WHERE kind = 'signal'"],
    "invariant": ["UPDATE onward_run SET finished_at = NULL WHERE id = 'count-1'"],
    "unserved": [f"UPDATE onward_run SET state = 'ready', due = 1 {HELD}"],
    "late": [f"UPDATE onward_run SET state = 'ready', due = 1 {HELD}", *live("w-1")],
    "divergence": [
        f"UPDATE onward_run SET state = 'paused', reason = 'divergence', due = NULL {HELD}"
    ],
    "crashes": [f"UPDATE onward_run SET crashes = 3 {HELD}"],
    "outbox": [
        "INSERT INTO onward_outbox (namespace, target, message, kind, name, created_at) "
        "VALUES ('default', 'hold-1', 'm', 'signal', 'go', 1)"
    ],
    "lease": [
        "INSERT INTO onward_lease (namespace, worker, renewed_at, length, steady_since) "
        "VALUES ('default', 'w-1', 1, 1, 1)",
        f"UPDATE onward_run SET state = 'running', worker = 'w-1', due = NULL {HELD}",
    ],
    "old_worker": [*live("w-1", "'1'", NOW - HOUR), *live("w-2", "'2'")],
}
ON_SQLITE = {
    "journal_mode": ["PRAGMA journal_mode = DELETE"],
    "clock": [f"UPDATE onward_meta SET value = {NOW + HOUR} WHERE name = 'time'"],
}
FAST = {"fsync", "full_page_writes"}
"""What the server of the tests does without."""


@pytest.fixture
def healthy(url: str) -> str:
    asyncio.run(fill(url))
    return url


def found(ask: Ask, url: str) -> set[str]:
    answer = ask("doctor", "--db", url, "--json")
    kinds = {finding["kind"] for finding in answer.things}
    assert answer.status == bool(kinds)
    return kinds


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_is_found(healthy: str, ask: Ask, kind: str) -> None:
    asyncio.run(execute(healthy, *FAULTS[kind]))
    assert kind in found(ask, healthy)


@pytest.mark.parametrize("url", ["file"], indirect=True)
@pytest.mark.parametrize("column", ["paused", "operator_max"])
def test_workers_are_not_blamed_for_runs_that_a_limit_holds_back(
    healthy: str, ask: Ask, column: str
) -> None:
    value = {"paused": 1, "operator_max": 0}[column]
    flow = (
        f"INSERT INTO onward_flow (namespace, kind, name, {column}, updated_at) "
        f"VALUES ('default', 'workflow', 'doctor.hold', {value}, 1)"
    )
    asyncio.run(execute(healthy, *FAULTS["late"], flow))
    assert found(ask, healthy) == set()


def copies(count: int) -> tuple[str, str]:
    """Return statements that add copies of the run that waits, ready for long."""
    numbers = (
        f"(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})"
        " SELECT n FROM n) numbers"
    )
    return (
        "INSERT INTO onward_run (namespace, uid, id, kind, name, queue, state, due, created_at, "
        "updated_at) SELECT namespace, '0' || n, 'copy-' || n, kind, name, queue, 'ready', 1, "
        f"1, 1 FROM onward_run, {numbers} {HELD}",
        "INSERT INTO onward_run_data (namespace, uid, input, args_hash) SELECT namespace, '0' || n,"
        f" input, '' FROM onward_run_data, {numbers} WHERE uid IN (SELECT uid FROM onward_run"
        f" {HELD})",
    )


def test_runs_that_no_worker_can_take_are_not_late(healthy: str, ask: Ask) -> None:
    asyncio.run(execute(healthy, *copies(1100)))
    assert found(ask, healthy) - FAST == {"unserved"}


def test_all_runs_are_checked_if_asked_for(
    healthy: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "SOME_RUNS", 3)
    old = "UPDATE onward_run SET newest = 0 WHERE uid = '050'"
    asyncio.run(execute(healthy, *copies(90), old))

    answer = ask("doctor", "--db", healthy)
    assert "check_newest" not in answer.out
    assert shortened(answer.out).endswith(
        " runs. To check all runs: onward --db URL doctor --full\n"
    )
    answer = ask("doctor", "--db", healthy, "--full")
    assert "check_newest is violated by copy-50" in answer.out
    assert "To check all runs" not in answer.out


@pytest.mark.parametrize("kind", ON_SQLITE)
@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_planted_fault_of_a_file_is_found(healthy: str, ask: Ask, kind: str) -> None:
    asyncio.run(execute(healthy, *ON_SQLITE[kind]))
    assert found(ask, healthy) == {kind}


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_healthy_file_has_no_findings(healthy: str, ask: Ask) -> None:
    assert found(ask, healthy) == set()
    answer = ask("doctor", "--db", healthy)
    assert (answer.status, answer.out) == (0, "No problems found.\n")


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_healthy_server_has_no_findings_but_for_its_settings(healthy: str, ask: Ask) -> None:
    assert found(ask, healthy) == FAST


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_settings_that_lose_commits_are_found(healthy: str, ask: Ask) -> None:
    change = "format('ALTER DATABASE %I SET synchronous_commit = off', current_database())"
    asyncio.run(execute(healthy, f"DO $$ BEGIN EXECUTE {change}; END $$"))
    assert found(ask, healthy) == FAST | {"synchronous_commit"}


def test_an_uncertain_effect_is_found_with_the_next_command(shop: str, ask: Ask) -> None:
    answer = ask("doctor")
    assert answer.status == 1
    assert "effects: 1 effect whose outcome is unknown." in answer.out
    assert "  Next: onward effects list" in answer.out
