"""Opening the store at an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.errors import StoreUnusable
from onward.store.address import SqliteAddress, parse
from onward.store.sqlite.database import SqliteDatabase
from onward.store.store import Store
from onward.system.clock import SystemClock, SystemRandomness, spawn_thread

if TYPE_CHECKING:
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.store.database import Database
    from onward.store.redis import RedisCarrier


def open_store(
    url: str,
    *,
    namespace: str = "default",
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    spawn: Spawn | None = spawn_thread,
    hints: str | None = None,
) -> Store:
    """Return the store at an address; enter it to connect.

    Args:
        url: A file name, `:memory:`, or `postgresql://…`.
        namespace: The tenant; nothing is read or written outside it.
        clock: Where time is read; on Postgres the database's own clock unless given.
        randomness: Where ids come from.
        spawn: How threads are started. With `None`, SQLite works in the caller's thread, so that a
            simulation decides every turn.
        hints: The address of a Redis that carries hints to other processes, in addition to the
            database. It may be away at any time.

    Raises:
        BadInput: the address of the Redis cannot be understood.
        BadStoreUrl: the address cannot be understood.
        StoreUnusable: the driver for it is not installed.
    """
    address = parse(url)
    real_clock = clock or SystemClock()
    database: Database
    if isinstance(address, SqliteAddress):
        database = SqliteDatabase(address, namespace, real_clock, spawn)
    else:
        try:
            from onward.store.postgres.database import PostgresDatabase
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            advice = "Install it: pip install 'onward[postgres]'"
            raise StoreUnusable(str(address), "needs the driver asyncpg", advice) from error
        database = PostgresDatabase(address, namespace, clock)
    redis: RedisCarrier | None = None
    if hints is not None:
        from onward.store.redis import RedisCarrier

        redis = RedisCarrier(hints)
    return Store(database, namespace, real_clock, randomness or SystemRandomness(), redis)
