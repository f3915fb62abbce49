"""Everything that is in a database, so that any two of them can be compared."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from onward.store import open_store
from onward.store.statements import tables
from tests.postgres.hand import hand
from tests.postgres.writes import prepare

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from onward.store import Store

Row = tuple[tuple[str, Any], ...]
Contents = dict[str, set[Row]]

TIMES = {
    "beginning", "closed_at", "created_at", "due", "finished_at", "known_until", "opened_at",
    "renewed_at", "scheduled_at", "sent_at", "settle_until", "start_by", "started_at",
    "steady_since", "updated_at", "wake_at",
}  # fmt: skip


_MADE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

TABLES = sorted(tables() - {"onward_meta"})


async def undisturbed(call: Callable[[Store], Awaitable[Any]], file: Path) -> tuple[Any, Contents]:
    """Make a call on a world of its own; return its answer, and what is in the database then."""
    async with open_store(str(file)) as store:
        await prepare(store)
        answer = await call(store)
    return answer, await contents(str(file))


async def contents(url: str) -> Contents:
    """Return every row of every table, without the times and what each database keeps of itself."""
    if url.startswith("postgresql:"):
        async with hand(url) as eyes:
            return {
                table: _rows([dict(row) for row in await eyes.connection.fetch(_all_of(table))])
                for table in TABLES
            }
    with closing(sqlite3.connect(url)) as file:
        file.row_factory = sqlite3.Row
        return {
            table: _rows([dict(row) for row in file.execute(f"SELECT * FROM {table}")])
            for table in TABLES
        }


def _all_of(table: str) -> str:
    return f"SELECT * FROM onward.{table}"


def _rows(found: list[dict[str, Any]]) -> set[Row]:
    rows = {
        tuple((name, _shown(value)) for name, value in row.items() if name not in TIMES)
        for row in found
    }
    assert len(rows) == len(found)
    return rows


def _shown(value: Any) -> Any:
    """Return a value, but one word for every id that a store has made itself."""
    return "made" if isinstance(value, str) and _MADE.fullmatch(value) else value
