"""Connections and sessions of SQLAlchemy: what is written through is the driver's own connection.

SQLAlchemy begins a transaction with the first statement that goes through it, and without one its
commit does nothing. So one is sent, unless it has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

_FIRST = "SELECT 1"


async def driver_connection(connection: object, *, waits: bool) -> object:
    """Return the driver's own connection, in the transaction of a connection or session.

    What is neither, or is async where nothing can wait, is returned as it is.
    """
    if any(
        kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in type(connection).__mro__
    ):
        return await _async(connection) if waits else connection
    return _blocking(connection)


async def _async(connection: object) -> object:
    from sqlalchemy.ext import asyncio

    found: AsyncConnection
    if isinstance(connection, asyncio.AsyncSession | asyncio.async_scoped_session):
        found = await connection.connection()
    elif isinstance(connection, asyncio.AsyncConnection):
        found = connection
    else:
        return connection
    inner: Any = await found.get_raw_connection()
    driver = inner.driver_connection
    # With asyncpg SQLAlchemy may hold a transaction that the server knows nothing of yet.
    is_begun = getattr(driver, "is_in_transaction", lambda: True)
    if not (found.in_transaction() and is_begun()):
        await found.exec_driver_sql(_FIRST)
    return driver


def _blocking(connection: object) -> object:
    from sqlalchemy import engine, orm

    found: Connection
    if isinstance(connection, orm.Session | orm.scoped_session):
        found = connection.connection()
    elif isinstance(connection, engine.Connection):
        found = connection
    else:
        return connection
    if not found.in_transaction():
        found.exec_driver_sql(_FIRST)
    return found.connection.driver_connection
