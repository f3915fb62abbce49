"""Whether a database exists at an address, and with which schema; asking does not create one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.store.address import SqliteAddress
from onward.store.sqlite.connection import connect
from onward.store.sqlite.connection import schema_number as sqlite_schema
from onward.store.sqlite.files import check_place
from onward.store.sqlite.library import sqlite3, translate_error
from onward.store.statements import Dialect

if TYPE_CHECKING:
    from pathlib import Path

    from onward.store.address import PostgresAddress


_VERSIONS_AT = 18
"""Where the header of a SQLite file says which versions may write and read it."""
_WAL = b"\x02\x02"


def is_wal(path: Path) -> bool:
    """Return whether a SQLite file is in WAL mode, as its header says."""
    with path.open("rb") as file:
        file.seek(_VERSIONS_AT)
        return file.read(2) == _WAL


async def is_there(address: SqliteAddress | PostgresAddress) -> bool:
    """Return whether there is an Onward database.

    Raises:
        StoreUnusable: what is there cannot be used.
        Unavailable: it cannot be reached.
    """
    return await schema_at(address) > 0


async def schema_at(address: SqliteAddress | PostgresAddress) -> int:
    """Return the number of the schema of an Onward database; 0 if there is none.

    Raises:
        StoreUnusable: what is there cannot be used.
        Unavailable: it cannot be reached.
    """
    if isinstance(address, SqliteAddress):
        return 0 if address.path is None else _file_schema(address.path)
    return await _server_schema(address)


def _file_schema(path: Path) -> int:
    check_place(path)
    if not path.exists():
        return 0
    try:
        connection = connect(path, writes=False)
        try:
            return sqlite_schema(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translate_error(error, str(path)) or error from error


async def _server_schema(address: PostgresAddress) -> int:
    from onward.store.postgres.connections import schema_number
    from onward.store.postgres.pool import Pool

    async def look(connection: Any) -> int:
        return await schema_number(connection, Dialect(postgres=True, schema=address.schema))

    pool = Pool(address, 1)
    pool.open()
    try:
        return await pool.run(look)
    finally:
        await asyncio.shield(pool.close())
