"""Rows are filled by position: their fields are the columns of the statements behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.model.effects import EffectWrite
from onward.model.messages import InboxRow, NewMessage
from onward.model.pipelines import HandlerRow, PeekedEvent
from onward.model.records import NewRecord, RecordRow
from onward.model.runs import ClaimedRun, Move, NewRun, RunEnd, RunRow
from onward.store.sqlite.connection import DIALECT, connect, migrate

if TYPE_CHECKING:
    import sqlite3

STATEMENTS = DIALECT.statements()

READ: dict[str, tuple[str, ...]] = {
    "run_by_uid": RunRow._fields,
    "newest_run": RunRow._fields,
    "list_any": RunRow._fields,
    "list_family": RunRow._fields,
    "list_dead": RunRow._fields,
    "list_children": RunRow._fields,
    "ready_in_need": RunRow._fields,
    "run_end": RunEnd._fields,
    "run_ends": RunEnd._fields,
    "history": RecordRow._fields,
    "look": InboxRow._fields,
    "handler_row": HandlerRow._fields,
    "peek_events": PeekedEvent._fields,
    "peek_messages": PeekedEvent._fields,
    "claimed_runs": ClaimedRun._fields[:-1],  # `taken_from` is known before they are claimed
}

# What follows the fields of a row is added by the code that writes it.
WRITTEN: dict[str, tuple[str, ...]] = {
    "insert_run": NewRun._fields,
    "add_record": NewRecord._fields,
    "write_effect": EffectWrite._fields,
}


@pytest.fixture(scope="module")
def connection() -> sqlite3.Connection:
    made = connect(None)
    migrate(made, ":memory:")
    return made


@pytest.mark.parametrize("name", READ)
def test_a_row_has_the_columns_of_the_statement_that_fills_it(
    connection: sqlite3.Connection, name: str
) -> None:
    statement = STATEMENTS[name]
    given: dict[str, object] = dict.fromkeys(statement.parameters, "")
    given |= {"uids": "[]", "messages": "[]", "after": "{}", "ready_at": "{}", "limit": 1}

    cursor = connection.execute(statement.sql, statement.arrange(given))

    assert tuple(column[0] for column in cursor.description) == READ[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_row_gives_the_parameters_of_the_statement_that_writes_it(name: str) -> None:
    assert STATEMENTS[name].row == WRITTEN[name]


def test_the_parts_of_a_row_that_are_taken_by_position_are_where_they_should_be() -> None:
    assert STATEMENTS["move_run"].row == ("uid", *Move._fields[:8], *Move._fields[-2:])
    assert Move._fields[8:-2] == ("result", "error", "failed_call", "progress")
    assert STATEMENTS["keep_end"].row == ("uid", *Move._fields[8:-2], "lost")
    assert STATEMENTS["add_message"].row[3:] == NewMessage._fields[1:5]
    assert STATEMENTS["insert_run_data"].row == (
        "uid", "input", "args_hash", "trace", "retry", "attributes", "delay_in", "due",
    )  # fmt: skip
