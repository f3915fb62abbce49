"""Connections of psycopg, async or not.

Our own raw cursors take the store's `$1` texts as they are, and give tuples whatever kind of cursor
and of row the caller has chosen for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from onward.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.store.callers.caller import Caller


class _Told:
    """What both kinds of connection share."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def prepare_to_write(self) -> None:
        """Do nothing: a Postgres transaction may read first."""

    async def is_in_transaction(self) -> bool:
        """Return whether a write would wait for the caller's commit."""
        is_open = self._connection.info.transaction_status == TransactionStatus.INTRANS
        return is_open or not self._connection.autocommit


class PsycopgCaller(_Told):
    """A connection that blocks; its `fetch` never suspends."""

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        with psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode(), values)
            return cursor.fetchall() if cursor.description else ()


class AsyncPsycopgCaller(_Told):
    """An async connection."""

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), values)
            return await cursor.fetchall() if cursor.description else ()


def caller(connection: object, *, waits: bool) -> Caller | None:
    """Return how to write through a connection, if it is one of psycopg that waits or blocks.

    Raises:
        StoreUnusable: psycopg is too old to know raw cursors.
    """
    if not isinstance(connection, psycopg.AsyncConnection if waits else psycopg.Connection):
        return None
    if not hasattr(psycopg, "RawCursor"):
        raise StoreUnusable(
            f"psycopg {psycopg.__version__}", "is older than 3.2", "Install a newer version"
        )
    return AsyncPsycopgCaller(connection) if waits else PsycopgCaller(connection)
