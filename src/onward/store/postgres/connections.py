"""The connections of a process to one Postgres, which all its namespaces share."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from onward.store.database import Capabilities
from onward.store.hints import HintBuses
from onward.store.migrations import missing
from onward.store.postgres import pool as pools
from onward.store.postgres.listener import Listener
from onward.store.postgres.pool import Pool
from onward.store.postgres.transaction import PostgresTx
from onward.store.statements import Dialect
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    from onward.core.ports import Clock
    from onward.store.address import PostgresAddress

# What workers and clients do all the time, and what may take long: neither waits for the other.
MAX_HOT = 6
MAX_SLOW = 4
_MIGRATION_LOCK = 7_166_273_214  # any number, the same everywhere


class PostgresConnections:
    """Pools and a listener, for any number of namespaces: 13 connections at most.

    Renewals have a connection of their own, so that nothing can make them wait; so has listening.
    Reads and closures, which may be slow, are kept apart from the hot path.
    """

    def __init__(self, address: PostgresAddress, clock: Clock | None) -> None:
        self.address = address
        self.clock = clock
        self.where = str(address)
        self.capabilities = Capabilities(listen=not address.pooled, prepared=not address.pooled)
        self.hints = HintBuses()
        self.hot = Pool(address, MAX_HOT)
        self.slow = Pool(address, MAX_SLOW)
        self.renewals = Pool(address, 1)
        self.listener: Listener | None = None
        self._dialect = Dialect(postgres=True, schema=address.schema, database_time=clock is None)
        self.statements = self._dialect.statements()

    @property
    def _pools(self) -> tuple[Pool, ...]:
        return self.hot, self.slow, self.renewals

    async def open(self) -> None:
        """Connect, migrate, and begin to listen."""
        for pool in self._pools:
            pool.open()
        try:
            await self.slow.run(self._migrate, patience=pools.OPEN_SECONDS)
        except BaseException:  # the caller cannot close what was never opened
            await self.slow.abandon()
            raise
        for pool in self._pools:
            pool.is_proven = True
        if self.capabilities.listen:
            self.listener = Listener(self.address)
            self.listener.start()

    async def close(self) -> None:
        """Finish what is in flight and release all connections."""
        async with AsyncExitStack() as last:  # all of them, also if this is cancelled half way
            for pool in self._pools:
                last.push_async_callback(pool.close)
            if self.listener is not None:
                last.push_async_callback(self.listener.close)

    def tx(self, connection: Any, namespace: str) -> PostgresTx:
        """Return a connection as a transaction in a namespace."""
        return PostgresTx(connection, self.statements, namespace, self.where, self.clock)

    async def _migrate(self, connection: Any) -> None:
        if not missing(await schema_number(connection, self._dialect), self.where):
            return
        failpoint("migrate.before")
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
            if not await connection.fetchval("SELECT to_regnamespace($1)", self.address.schema):
                await connection.execute(f"CREATE SCHEMA {self.address.schema}")
            for number, text in missing(await schema_number(connection, self._dialect), self.where):
                for statement in self._dialect.script(text):
                    await connection.execute(statement)
                await self.tx(connection, "").fetch("set_schema", number=number)
        failpoint("migrate.after")


async def schema_number(connection: Any, dialect: Dialect) -> int:
    """Return the number of the schema in this database; 0 if there is none."""
    table = f"{dialect.schema}.onward_meta"
    if await connection.fetchval("SELECT to_regclass($1)", table) is None:
        return 0
    rows = await connection.fetch(dialect.statements()["schema"].sql)
    return int(rows[0][0]) if rows else 0
