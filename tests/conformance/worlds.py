"""The three worlds that the conformance suite runs in here."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from onward.store import Store, open_store
from tests.conformance.suite import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path


class MemoryWorld(World):
    """SQLite in memory: one database, one store a namespace, one connection.

    It has no threads, as in a simulation.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stores_by_namespace: dict[str, Store] = {}

    async def open(self, namespace: str) -> Store:
        if namespace not in self._stores_by_namespace:
            self._stores_by_namespace[namespace] = await self._open(namespace)
        return self._stores_by_namespace[namespace]

    async def _open(self, namespace: str) -> Store:
        if not self._stores_by_namespace:
            store = open_store(":memory:", namespace=namespace, clock=self.clock, spawn=None)
            return await store.__aenter__()
        # Another namespace of the same database, which no address can name.
        first = next(iter(self._stores_by_namespace.values()))
        return await first.view(namespace).__aenter__()

    async def close(self, store: Store) -> None:
        if self._stores_by_namespace.pop(store.namespace, None) is not None:
            await store.__aexit__(None, None, None)

    async def sql(self, statement: str) -> Sequence[Sequence[Any]]:
        return (await self._connection()).execute(statement).fetchall()

    @asynccontextmanager
    async def caller(self, *, commit: bool) -> AsyncIterator[Any]:
        connection = await self._connection()
        connection.execute("BEGIN")
        yield connection
        connection.execute("COMMIT" if commit else "ROLLBACK")

    async def _connection(self) -> sqlite3.Connection:
        """Return the writer's own connection: there is no other to a database in memory."""
        store = await self.store()

        async def given(tx: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = tx._connection
            return connection

        return await store.write(given)


class FileWorld(World):
    """SQLite in a file, which all stores of the process share."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    async def open(self, namespace: str) -> Store:
        return await open_store(str(self._path), namespace=namespace, clock=self.clock).__aenter__()

    async def close(self, store: Store) -> None:
        await store.__aexit__(None, None, None)

    async def sql(self, statement: str) -> Sequence[Sequence[Any]]:
        connection = sqlite3.connect(self._path, isolation_level=None)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    @asynccontextmanager
    async def caller(self, *, commit: bool) -> AsyncIterator[Any]:
        connection = sqlite3.connect(self._path)
        connection.row_factory = sqlite3.Row
        try:
            yield connection
            (connection.commit if commit else connection.rollback)()
        finally:
            connection.close()


class PostgresWorld(World):
    """A database of a real Postgres."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url
        self._console: Any = None

    async def leave(self) -> None:
        if self._console is not None:
            await self._console.close()

    async def open(self, namespace: str) -> Store:
        return await open_store(self._url, namespace=namespace, clock=self.clock).__aenter__()

    async def close(self, store: Store) -> None:
        await store.__aexit__(None, None, None)

    async def sql(self, statement: str) -> Sequence[Sequence[Any]]:
        if self._console is None:
            settings = {"search_path": "onward"}
            self._console = await asyncpg.connect(self._url, server_settings=settings)
        rows: Sequence[Sequence[Any]] = await self._console.fetch(statement)
        return rows

    @asynccontextmanager
    async def caller(self, *, commit: bool) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self._url)
        try:
            transaction = connection.transaction()
            await transaction.start()
            yield connection
            await (transaction.commit() if commit else transaction.rollback())
        finally:
            await connection.close()
