"""Whether a database exists at an address; asking does not create one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.store.address import SqliteAddress
from onward.store.sqlite.connection import connect
from onward.store.sqlite.files import check_place
from onward.store.sqlite.library import sqlite3, translate_error

if TYPE_CHECKING:
    from pathlib import Path

    from onward.store.address import PostgresAddress


async def is_there(address: SqliteAddress | PostgresAddress) -> bool:
    """Return whether there is an Onward database.

    Raises:
        StoreUnusable: what is there cannot be used.
        Unavailable: it cannot be reached.
    """
    if isinstance(address, SqliteAddress):
        return address.path is not None and _file_is_there(address.path)
    return await _schema_is_there(address)


def _file_is_there(path: Path) -> bool:
    check_place(path)
    if not path.exists():
        return False
    try:
        connection = connect(path, writes=False)
        try:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'onward_meta'")
            return bool(found.fetchall())
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translate_error(error, str(path)) or error from error


async def _schema_is_there(address: PostgresAddress) -> bool:
    from onward.store.postgres.pool import Pool

    async def look(connection: Any) -> bool:
        table = f"{address.schema}.onward_meta"
        return await connection.fetchval("SELECT to_regclass($1)::text", table) is not None

    pool = Pool(address, 1)
    pool.open()
    try:
        return await pool.run(look)
    finally:
        await asyncio.shield(pool.close())
