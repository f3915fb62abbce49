"""Locks between the processes on one SQLite file: who writes, which workers are alive, forks."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onward.errors import Unavailable
from onward.store.sqlite import waiting
from onward.store.sqlite.holders import flock_holder, writer
from onward.store.sqlite.locks import Locks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def locks(database: Path) -> Iterator[Locks]:
    held = Locks(database)
    yield held
    held.close()


@pytest.fixture
def other(database: Path) -> Iterator[Locks]:
    """The same files as another process has them open."""
    held = Locks(database)
    yield held
    held.close()


def test_a_worker_that_holds_its_file_is_not_dead(locks: Locks, other: Locks) -> None:
    locks.hold("a", "w/1 é")
    locks.hold("a", "w/1 é")

    assert locks.dead("a") == other.dead("a") == []


def test_a_worker_whose_process_is_gone_is_dead(database: Path, other: Locks) -> None:
    gone = Locks(database)
    gone.hold("a", "w/1 é")
    gone.close()  # as the system does for a process that ends

    assert other.dead("a") == ["w/1 é"]
    other.forget("a", "w/1 é")
    assert other.dead("a") == []


def test_a_worker_that_left_leaves_nothing(locks: Locks, other: Locks, database: Path) -> None:
    locks.hold("a", "w")
    locks.let_go("a", "w")
    locks.let_go("a", "never held")

    assert other.dead("a") == []
    names = {entry.name for entry in database.with_name("onward.db-onward").iterdir()}
    assert names == {"write", "users"}


def test_a_worker_is_never_seen_before_it_is_locked(
    locks: Locks, other: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    seen: list[list[str]] = []

    def locking(descriptor: int, how: int) -> None:
        with monkeypatch.context() as undone:
            undone.setattr(fcntl, "flock", real)
            seen.append(other.dead("a"))
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locking)
    locks.hold("a", "w")

    assert seen == [[]]


def test_a_process_knows_whether_it_is_alone(locks: Locks, database: Path) -> None:
    assert locks.alone()
    neighbour = Locks(database)
    assert not locks.alone()
    assert not neighbour.alone()
    neighbour.close()
    assert locks.alone()


def test_only_one_process_writes_at_a_time(locks: Locks, other: Locks) -> None:
    flock, busy = fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB
    with locks.writing(), pytest.raises(BlockingIOError):
        flock(other._write, busy)

    flock(other._write, busy)


def test_the_lock_is_given_back_when_writing_fails(locks: Locks, other: Locks) -> None:
    with pytest.raises(ZeroDivisionError), locks.writing():
        raise ZeroDivisionError

    with other.writing():
        pass


def test_a_dead_worker_of_another_namespace_is_not_seen(database: Path, other: Locks) -> None:
    gone = Locks(database)
    gone.hold("a", "w")
    gone.hold("a-b", "w")
    gone.close()

    assert other.dead("b") == []
    assert other.dead("a") == other.dead("a-b") == ["w"]
    other.forget("a", "w")
    assert (other.dead("a"), other.dead("a-b")) == ([], ["w"])


# --- waits ----------------------------------------------------------------------------------------


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "WARN_AFTER", 10_000)
    monkeypatch.setattr(waiting, "WAIT_LIMIT", 50_000)
    monkeypatch.setattr(waiting, "SHORT_LIMIT", 1_000)


@pytest.mark.usefixtures("short_waits")
def test_a_wait_for_a_lock_warns_and_ends_and_names_the_file_and_the_holder(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    holder, waits = Locks(database), Locks(database)
    file = f"{database}-onward/write"

    with (
        holder.writing(),
        caplog.at_level(logging.WARNING, "onward"),
        pytest.raises(Unavailable) as refused,
        waits.writing(),
    ):
        pass

    assert f"{file} is locked by process {os.getpid()}" in str(refused.value)
    assert "resume or end it" in str(refused.value)
    [warning] = [record.getMessage() for record in caplog.records]
    assert f"store.locked: file={file} holder_pid={os.getpid()} waited_seconds=0" in warning
    holder.close()
    waits.close()


@pytest.mark.usefixtures("short_waits")
def test_a_lock_that_many_calls_wait_for_is_reported_once_a_minute(
    database: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "WARN_AFTER", 0)
    holder, waits = Locks(database), Locks(database)

    with caplog.at_level(logging.WARNING, "onward"):
        for _ in range(2):
            with holder.writing():
                for _ in range(3):
                    with pytest.raises(Unavailable), waits.writing():
                        pass
            with waits.writing():
                pass  # it was released: the next one is news

    assert len(caplog.records) == 2
    holder.close()
    waits.close()


@pytest.mark.usefixtures("short_waits")
def test_after_a_wait_in_vain_the_next_ones_are_short_until_the_lock_is_had(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, waits = Locks(database), Locks(database)
    with holder.writing(), pytest.raises(Unavailable), waits.writing():
        pass
    assert waits.patience.limit == waiting.SHORT_LIMIT

    with waits.writing():
        assert waits.patience.limit == waiting.WAIT_LIMIT

    waits.patience.close()
    with waits.writing():
        assert waits.patience.limit == waiting.SHORT_LIMIT
    holder.close()
    waits.close()


def test_the_holder_of_a_flock_is_found(database: Path, locks: Locks) -> None:
    file = Path(f"{database}-onward/write")
    assert flock_holder(file) is None

    with locks.writing():
        assert flock_holder(file) == os.getpid()


def test_the_writer_of_a_sqlite_file_is_found(database: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        assert writer(database) is None
        connection.execute("BEGIN IMMEDIATE")
        assert writer(database) == os.getpid()


def test_where_the_system_does_not_tell_there_is_no_holder(database: Path, locks: Locks) -> None:
    with locks.writing():
        assert flock_holder(Path(f"{database}-onward/write"), Path("no such file")) is None
