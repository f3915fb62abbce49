"""The SQLite library: which one is good enough, and what its errors mean."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from onward.errors import OnwardError, Rejected, StoreUnusable, Unavailable
from onward.store.sqlite.connection import check_library
from onward.store.sqlite.library import OLDEST, has_wal_reset_bug, translate_error

if TYPE_CHECKING:
    from pathlib import Path


def test_a_library_that_is_too_old_is_refused_with_advice() -> None:
    with pytest.raises(StoreUnusable, match=r"3\.36\.9 is older than 3\.37\.0.*pip install"):
        check_library((3, 36, 9))


def test_the_oldest_library_and_the_one_in_use_are_taken() -> None:
    check_library(OLDEST)
    check_library()


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 37, 0), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
        ((4, 0, 0), False),
    ],
)
def test_the_releases_that_may_damage_a_shared_file_are_known(
    version: tuple[int, ...], affected: bool
) -> None:
    assert has_wal_reset_bug(version) is affected


def error_of(connection: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute(statement)
    connection.close()
    return raised.value


def meaning(error: Exception) -> OnwardError:
    found = translate_error(error, "x.db")
    assert found is not None
    return found


def test_a_broken_constraint_is_a_refused_write_that_quotes_no_value() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (secret TEXT CHECK (secret <> 'hunter2'))")

    found = meaning(error_of(connection, "INSERT INTO t VALUES ('hunter2')"))

    assert isinstance(found, Rejected)
    assert "CHECK constraint failed" in str(found)


def test_a_locked_file_is_away(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")

    found = meaning(error_of(sqlite3.connect(path, timeout=0), "SELECT * FROM sqlite_master"))

    holder.close()
    assert isinstance(found, Unavailable)
    assert "is locked by another program" in str(found)


def test_a_full_disk_is_away() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE t (x)")

    found = meaning(error_of(connection, "INSERT INTO t VALUES (zeroblob(100000))"))

    assert isinstance(found, Unavailable)
    assert "has no room left" in str(found)


def test_a_file_that_is_no_database_is_unusable(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"this is not a database, and long enough to be looked at" * 20)

    found = meaning(error_of(sqlite3.connect(path), "SELECT * FROM sqlite_master"))

    assert isinstance(found, StoreUnusable)
    assert "Restore it from a backup" in str(found)


def test_a_read_only_database_is_away(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    sqlite3.connect(path).execute("CREATE TABLE t (x)").connection.close()
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)

    assert isinstance(meaning(error_of(reader, "INSERT INTO t VALUES (1)")), Unavailable)


@pytest.mark.parametrize("value", ["a\ud800", 2**70])
def test_a_value_that_cannot_be_bound_is_a_refused_write(value: object) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises((UnicodeError, OverflowError)) as raised:
        connection.execute("SELECT ?", (value,))
    connection.close()

    assert isinstance(meaning(raised.value), Rejected)


def test_what_is_no_error_of_the_library_is_left_alone() -> None:
    assert translate_error(ZeroDivisionError(), "x.db") is None
