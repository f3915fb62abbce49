"""Transactions of the user's own on a SQLite file that others write to all the time."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager, closing
from pathlib import Path  # noqa: TC003 - pytest's own annotations
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, step, workflow
from onward.errors import NotFound, StoreUnusable, Unavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

hello = Signal("hello", int)


@workflow
async def collect() -> int:
    return await hello.wait()


@step
async def count(n: int) -> int:
    return n


@workflow
async def keep_busy() -> None:
    n = 0
    while True:
        n = await count(n + 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


@asynccontextmanager
async def hammered(path: Path) -> AsyncIterator[App]:
    """Yield an app whose worker commits without a pause."""
    app = App(path)
    async with app, app.worker(workflows=[collect, keep_busy]):
        busy = await app.start(keep_busy)
        yield app
        await busy.cancel(force=True)


async def test_a_signal_in_an_explicit_transaction_succeeds_while_a_worker_commits(
    path: Path,
) -> None:
    async with hammered(path) as app:
        runs = [await app.start(collect) for _ in range(10)]
        for number, run in enumerate(runs):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("BEGIN")
                await app.within(connection).signal(run.id, hello, number)
                await asyncio.sleep(0)  # the worker may go on
                connection.execute("COMMIT")
        assert [await run.result(timeout="60s") for run in runs] == list(range(10))


async def test_a_transaction_that_has_read_too_early_must_begin_as_a_writer(
    path: Path,
) -> None:
    async with App(path) as app:
        run = await app.start(collect)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM onward_run").fetchall()
            await app.start(collect)

            with pytest.raises(StoreUnusable, match="again with BEGIN IMMEDIATE") as refused:
                await app.within(connection).signal(run.id, hello, 1)
            with pytest.raises(StoreUnusable, match="another connection has committed"):
                await app.within(connection).start(collect)
            assert isinstance(refused.value.__cause__, sqlite3.OperationalError)

            connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("SELECT count(*) FROM onward_run").fetchall()
            await app.within(connection).signal(run.id, hello, 1)
            connection.execute("COMMIT")


async def test_a_connection_with_a_short_busy_timeout_gets_an_error_that_says_so(
    path: Path,
) -> None:
    async with App(path) as app:
        run = await app.start(collect)
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as holder,
            closing(sqlite3.connect(path, isolation_level=None, timeout=0.01)) as connection,
        ):
            holder.execute("BEGIN IMMEDIATE")
            connection.execute("BEGIN")
            with pytest.raises(Unavailable, match="longer than the timeout of your connection"):
                await app.within(connection).signal(run.id, hello, 1)


async def test_a_signal_to_a_missing_run_begins_no_transaction(path: Path) -> None:
    async with App(path) as app:
        with closing(sqlite3.connect(path)) as connection:
            with pytest.raises(NotFound):
                await app.within(connection).signal("missing", hello, 1)
            assert not connection.in_transaction
