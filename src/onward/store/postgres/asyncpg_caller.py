"""Connections of asyncpg, on their own or out of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.store.callers.caller import Caller


class AsyncpgCaller:
    """A connection of asyncpg."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def fetch(self, sql: str, values: Sequence[object] = ()) -> Sequence[Sequence[Any]]:
        """Run one statement in the caller's transaction and return its rows."""
        rows: Sequence[Sequence[Any]] = await self._connection.fetch(sql, *values)
        return rows

    async def prepare_to_write(self) -> None:
        """Do nothing: a Postgres transaction may read first."""

    async def is_in_transaction(self) -> bool:
        """Return whether a write would wait for the caller's commit."""
        return bool(self._connection.is_in_transaction())


def caller(connection: object) -> Caller | None:
    """Return how to write through a connection, if it is one of asyncpg."""
    if isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        return AsyncpgCaller(connection)
    return None
