"""One statement of SQLite for many rows."""

from __future__ import annotations

import pytest

from onward.store.sqlite.connection import DIALECT, connect, migrate
from onward.store.sqlite.library import sqlite3
from onward.store.sqlite.row_statements import for_rows, padded
from onward.store.sqlite.transaction import SqliteTx


@pytest.fixture
def tx() -> SqliteTx:
    connection = connect(None)
    migrate(connection, ":memory:")
    made = SqliteTx(connection, DIALECT.statements(), ":memory:")
    made.now, made.namespace = 7, "here"
    return made


def a_record(number: int, run: str = "a") -> tuple[object, ...]:
    of_call = (run, f"s#{number}", 1, number, "step", "s", "succeeded", None, None, None, None)
    return (*of_call, None, b"jx", None, 0, None)


def count(tx: SqliteTx) -> int:
    found: int = tx._connection.execute("SELECT count(*) FROM onward_record").fetchone()[0]
    return found


def test_rows_are_padded_to_a_power_of_two() -> None:
    assert padded([(1, 2)]) == (1, [1, 2])
    assert padded([(1, 2), (3, 4), (5, 6)]) == (4, [1, 2, 3, 4, 5, 6, None, None])


@pytest.mark.parametrize("number", [1, 2, 3, 64, 65, 513, 1100])
def test_each_row_is_written_once(tx: SqliteTx, number: int) -> None:
    changed, _ = tx.write_rows("add_record", [a_record(n) for n in range(1, number + 1)])

    assert changed == count(tx) == number


def test_a_row_that_is_there_already_is_not_counted(tx: SqliteTx) -> None:
    tx.write_rows("add_record", [a_record(1), a_record(2)])

    changed, _ = tx.write_rows("add_record", [a_record(2), a_record(3)])

    assert changed == 1


def test_no_rows_are_no_statement(tx: SqliteTx) -> None:
    assert tx.write_rows("add_record", []) == (0, [])


def test_a_row_that_is_refused_refuses_all_of_them(tx: SqliteTx) -> None:
    rows = [a_record(1), (*a_record(2)[:6], "no state", *a_record(2)[7:])]

    with pytest.raises(sqlite3.IntegrityError):
        tx.write_rows("add_record", rows)

    assert count(tx) == 0


def test_the_text_of_one_row_is_the_text_of_many() -> None:
    statement = DIALECT.render("x", "UPDATE t AS r SET a = :a\nWHERE r.b = :b;", ("b",))

    assert for_rows(statement, 2) == (
        "WITH given (a, b) AS (\nSELECT ?, * FROM (VALUES (?), (?))\nWHERE column1 IS NOT NULL)\n"
        "UPDATE t AS r SET a = given.a\nFROM given\nWHERE r.b = given.b;"
    )
