"""A SQLite file within one process: who shares it, what is left of it, whose connections join."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from typing import TYPE_CHECKING

import pytest

from onward.errors import StoreUnusable
from onward.store import open_store
from tests.conformance.suite.samples import a_run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


def writers() -> int:
    return sum(thread.name == "onward-writer" for thread in threading.enumerate())


async def test_the_stores_of_a_process_share_one_writer(path: Path) -> None:
    before = writers()
    link = path.with_name("link.db")
    async with open_store(str(path), namespace="a") as one:
        link.symlink_to(path)
        async with open_store(str(link), namespace="b") as other:
            assert writers() == before + 1
            await one.start(a_run("a"))
            assert await other.counts() == {}
        await one.start(a_run("b"))
    assert writers() == before


async def test_a_new_file_is_made_under_the_lock_of_all_processes(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    was_there: list[bool] = []

    def locking(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_EX:
            was_there.append(os.path.exists(path))
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locking)
    async with open_store(str(path)):
        assert was_there[0] is False


async def test_a_store_that_is_closed_leaves_nothing_but_its_file(path: Path) -> None:
    async with open_store(str(path)) as store:
        await store.start(a_run("a"))
        await store.counts()
        assert beside(path) == {"onward.db-wal", "onward.db-shm"}

    assert beside(path) == set()


async def test_a_store_that_was_only_opened_leaves_nothing_but_its_file(path: Path) -> None:
    async with open_store(str(path)):
        pass

    assert beside(path) == set()


def beside(path: Path) -> set[str]:
    """Return the files that SQLite keeps while somebody has a connection."""
    return {entry.name for entry in path.parent.glob("onward.db-*") if entry.is_file()}


async def test_each_database_in_memory_is_one_of_its_own() -> None:
    async with open_store(":memory:") as one, open_store(":memory:") as other:
        await one.start(a_run("a"))

        assert await other.counts() == {}


# --- callers' connections -------------------------------------------------------------------------


async def test_a_connection_to_another_file_is_refused(path: Path) -> None:
    async with (
        open_store(str(path)) as store,
        open_store(str(path.with_name("other.db"))) as other,
    ):
        connection = sqlite3.connect(path)
        with pytest.raises(StoreUnusable, match="Pass a connection to the same database"):
            await other.within(connection).start(a_run("a"))
        await store.within(connection).start(a_run("a"))
        connection.rollback()
        connection.close()


async def test_a_connection_to_another_database_in_memory_is_refused() -> None:
    async with open_store(":memory:") as store:
        connection = sqlite3.connect(":memory:")
        with pytest.raises(StoreUnusable, match="cannot write to :memory:"):
            await store.within(connection).start(a_run("a"))
        connection.close()


async def test_a_callers_rows_may_have_any_shape(path: Path) -> None:
    async with open_store(str(path)) as store:
        connection = sqlite3.connect(path)
        connection.row_factory = lambda cursor, row: {"row": row}
        assert (await store.within(connection).start(a_run("a"))).created
        assert not (await store.within(connection).start(a_run("a")._replace(uid="x"))).created
        connection.commit()
        connection.close()

        assert await store.counts() == {"ready": 1}


async def test_an_open_that_is_cancelled_keeps_no_share_of_the_file(path: Path) -> None:
    async with open_store(str(path)):
        for steps in range(6):
            opening = asyncio.ensure_future(open_store(str(path)).__aenter__())
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
        assert writers() == 1
    assert writers() == 0
