"""Everything that is in a database, so that two of them can be compared."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

from onward.store.statements import tables
from tests.postgres.hand import hand

Row = tuple[tuple[str, Any], ...]
Contents = dict[str, set[Row]]

TIMES = {
    "closed_at", "created_at", "due", "finished_at", "opened_at", "sent_at", "settle_until",
    "start_by", "started_at", "until", "updated_at",
}  # fmt: skip


async def contents(url: str) -> Contents:
    """Return every row of every table, without the times."""
    if url.startswith("postgresql:"):
        async with hand(url) as eyes:
            return {
                table: _rows([dict(row) for row in await eyes.connection.fetch(_all_of(table))])
                for table in sorted(tables())
            }
    with closing(sqlite3.connect(url)) as file:
        file.row_factory = sqlite3.Row
        return {
            table: _rows([dict(row) for row in file.execute(f"SELECT * FROM {table}")])
            for table in sorted(tables())
        }


def _all_of(table: str) -> str:
    return f"SELECT * FROM onward.{table}"


def _rows(found: list[dict[str, Any]]) -> set[Row]:
    rows = {
        tuple((name, value) for name, value in row.items() if name not in TIMES) for row in found
    }
    assert len(rows) == len(found)
    return rows
