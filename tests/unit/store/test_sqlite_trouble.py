"""SQLite in trouble: full, locked, damaged, gone. It says so, loses nothing and heals by itself."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.lease import Fate
from onward.errors import NotOpen, SchemaTooNew, StoreUnusable, Unavailable
from onward.store import open_store
from onward.store.invariants import check
from onward.store.sqlite import connection as connections
from onward.store.sqlite import waiting
from onward.store.sqlite.locks import Locks
from tests.conformance.suite.samples import SUCCEEDED, a_message, a_record, a_run
from tests.conformance.suite.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from onward.store import Store

BIG = b"x" * 200_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


async def a_worker(store: Store) -> Worker:
    await store.take_lease("w")
    return Worker(store, "w")


async def limit(store: Store, pages: int | None) -> None:
    """Let the database have room for a few more pages only, or for as many as it likes."""

    async def set_limit(tx: Any) -> None:
        [[used]] = tx._connection.execute("PRAGMA page_count")
        most = 1_073_741_823 if pages is None else used + pages
        tx._connection.execute(f"PRAGMA max_page_count = {most}")

    await store.write(set_limit)


# --- full -----------------------------------------------------------------------------------------


async def test_a_full_disk_is_unavailable_and_heals_by_itself(path: Path) -> None:
    async with open_store(str(path)) as store:
        worker = await a_worker(store)
        [run] = await worker.owning("a")
        await limit(store, 4)
        record = a_record(run, 1)._replace(payload=BIG)

        for refused in (
            store.start(a_run("big")._replace(input=BIG)),
            store.send(a_message("a", "m1")._replace(payload=BIG)),
            worker.commit(run, record),
            worker.commit(run, move=SUCCEEDED._replace(result=BIG)),
        ):
            with pytest.raises(Unavailable, match="no room left"):
                await refused

        assert await store.counts() == {"running": 1}
        assert await check(store) == []
        await limit(store, None)
        assert (await store.start(a_run("big")._replace(input=BIG))).created
        assert (await worker.commit(run, record)).fate is Fate.DONE
        assert [again.id for again in await worker.claim()] == ["big"]


async def test_a_full_disk_refuses_nothing_for_good_that_came_with_others(path: Path) -> None:
    async with open_store(str(path)) as store:
        worker = await a_worker(store)
        runs = await worker.owning(*map(str, range(8)))
        await limit(store, 4)

        answers = await asyncio.gather(
            *(store.start(a_run(f"big{n}")._replace(input=BIG)) for n in range(4)),
            *(store.send(a_message(run.uid, "m1")._replace(payload=BIG)) for run in runs),
            *(worker.commit(run, a_record(run, 1)._replace(payload=BIG)) for run in runs),
            worker.renew(),
            worker.claim(),
            return_exceptions=True,
        )

        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        assert failed
        assert all(isinstance(answer, Unavailable) for answer in failed)
        assert await store.counts() == {"running": 8}
        await limit(store, None)
        for run in runs:
            assert (await worker.commit(run, a_record(run, 1), move=SUCCEEDED)).fate is Fate.DONE
        assert await check(store) == []


# --- locked ---------------------------------------------------------------------------------------


@contextmanager
def locked_by_a_stranger(path: Path) -> Iterator[None]:
    stranger = sqlite3.connect(path, isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    yield
    stranger.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "WAIT_LIMIT", 20_000)


@pytest.mark.usefixtures("impatient")
async def test_a_file_that_a_stranger_keeps_locked_is_unavailable(path: Path) -> None:
    async with open_store(str(path)) as store:
        with locked_by_a_stranger(path):
            with pytest.raises(Unavailable) as refused:
                await store.start(a_run("a"))
            assert await store.counts() == {}
        told = str(refused.value)
        assert f"onward.db is locked by process {os.getpid()} (this process), which did not" in told
        assert "A connection of this process has an open transaction on the file: commit" in told

        assert (await store.start(a_run("a"))).created


@pytest.mark.usefixtures("impatient")
async def test_a_locked_file_cannot_be_opened_for_now(path: Path) -> None:
    async with open_store(str(path)):
        pass
    with locked_by_a_stranger(path), pytest.raises(Unavailable, match="is locked"):
        await open_store(str(path)).__aenter__()

    async with open_store(str(path)) as store:
        assert await store.counts() == {}


class LetGo(logging.Handler):
    """Closes the connection of a stranger when the wait for its lock is logged."""

    def __init__(self, stranger: sqlite3.Connection) -> None:
        super().__init__()
        self.stranger = stranger
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.stranger.close()


async def test_opening_a_locked_file_warns_and_waits_like_every_other_call(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "WARN_AFTER", 20_000)
    async with open_store(str(path)):
        pass
    stranger = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    stranger.execute("BEGIN IMMEDIATE")
    handler = LetGo(stranger)
    logging.getLogger("onward").addHandler(handler)
    try:
        async with asyncio.timeout(60), open_store(str(path)) as store:
            assert await store.counts() == {}
    finally:
        logging.getLogger("onward").removeHandler(handler)

    [line] = handler.lines
    assert f"store.locked: file={path} holder_pid={os.getpid()} waited_seconds=" in line
    assert "is_own_process=True" in line


async def test_one_wait_for_a_locked_file_warns_once_a_minute(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connections, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(waiting, "WARN_AFTER", 0)
    monkeypatch.setattr(waiting, "WAIT_LIMIT", 100_000)
    async with open_store(str(path)) as store:
        with locked_by_a_stranger(path), pytest.raises(Unavailable, match="is locked by process"):
            await store.start(a_run("a"))

    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["store.locked"]


async def test_a_stranger_that_lets_go_in_time_costs_nothing_but_time(path: Path) -> None:
    async with open_store(str(path)) as store:
        stranger = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        stranger.execute("BEGIN IMMEDIATE")
        starting = asyncio.create_task(store.start(a_run("a")))
        await store.counts()  # a reader waits for nobody

        stranger.execute("COMMIT")
        stranger.close()

        assert (await starting).created


# --- damaged, newer, gone -------------------------------------------------------------------------


MINUTES = b"These are the minutes of the meeting. " * 100


@pytest.fixture
def text_file(path: Path) -> Iterator[Path]:
    path.write_bytes(MINUTES)
    yield path
    assert path.read_bytes() == MINUTES


async def test_a_file_that_is_no_database_is_refused(text_file: Path) -> None:
    with pytest.raises(StoreUnusable, match=r"is damaged, or is not a SQLite database.*backup"):
        await open_store(str(text_file)).__aenter__()


def damage(path: Path) -> None:
    """Spoil the second half of a file."""
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + b"\xff" * half)


async def test_a_damaged_page_is_told_to_whoever_meets_it(path: Path) -> None:
    async with open_store(str(path)) as store:
        for number in range(20):
            await store.start(a_run(str(number))._replace(input=BIG))
    damage(path)

    async with open_store(str(path)) as store:
        ends = [store.end(f"uid-{number}") for number in range(20)]
        answers = await asyncio.gather(*ends, return_exceptions=True)

    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert refused
    assert all(isinstance(answer, StoreUnusable) for answer in refused)


async def test_a_file_of_a_newer_onward_is_refused_and_let_go(path: Path) -> None:
    async with open_store(str(path)):
        pass
    connection = sqlite3.connect(path)
    connection.execute("UPDATE onward_meta SET value = 999 WHERE name = 'schema'")
    connection.commit()
    connection.close()

    with pytest.raises(SchemaTooNew):
        await open_store(str(path)).__aenter__()

    locks = Locks(path)
    assert locks.alone()
    locks.close()


async def test_a_file_that_is_put_back_in_its_place_is_used_again(path: Path) -> None:
    async with open_store(str(path)) as store:
        elsewhere = path.with_name("elsewhere")
        os.rename(path, elsewhere)

        with pytest.raises(StoreUnusable, match="was deleted or replaced"):
            await store.counts()

        os.rename(elsewhere, path)
        assert await store.counts() == {}


def delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        os.unlink(f"{path}{suffix}")


def replace(path: Path) -> None:
    with closing(sqlite3.connect(f"{path}.new")) as connection:
        connection.execute("CREATE TABLE another (x)")
    os.replace(f"{path}.new", path)


def delete_the_newest(path: Path) -> None:
    os.unlink(f"{path}-wal")


@pytest.mark.parametrize("lose", [delete, replace, delete_the_newest])
async def test_nothing_is_acknowledged_once_the_file_was_deleted_or_replaced(
    path: Path, lose: Callable[[Path], None]
) -> None:
    async with open_store(str(path)) as store:
        await store.start(a_run("a"))
        await store.counts()
        lose(path)

        with pytest.raises(StoreUnusable, match=r"-wal file was deleted or replaced.*Stop every"):
            await store.start(a_run("b"))
        with pytest.raises(StoreUnusable, match="was deleted or replaced"):
            await store.counts()


async def test_a_worker_of_a_deleted_file_says_so_and_stops_claiming(path: Path) -> None:
    async with open_store(str(path)) as store:
        worker = await a_worker(store)
        await store.start(a_run("a"))
        delete(path)

        with pytest.raises(StoreUnusable, match="was deleted or replaced"):
            await worker.claim()


async def test_a_store_that_is_not_open_says_so() -> None:
    with pytest.raises(NotOpen, match="is not open here"):
        await open_store(":memory:").counts()
