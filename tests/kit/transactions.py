"""Transactions as users of each driver open them, all told alike."""

from __future__ import annotations

import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import aiosqlite
import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager


class Theirs(NamedTuple):
    """An open transaction: what is passed to `within`, and how its owner runs a statement."""

    connection: Any
    run: Callable[[str], Awaitable[Any]]


class SyncTheirs(NamedTuple):
    """The same for code without an event loop."""

    connection: Any
    run: Callable[[str], Any]


# --- async ----------------------------------------------------------------------------------------


@asynccontextmanager
async def asyncpg_connection(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Theirs(connection, connection.execute)
    await (transaction.commit() if commit else transaction.rollback())
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
    async with asyncpg.create_pool(url, min_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Theirs(connection, connection.execute)
        await (transaction.commit() if commit else transaction.rollback())


@asynccontextmanager
async def psycopg_connection(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        # Whatever its owner has chosen for itself must not matter to us.
        connection.row_factory = psycopg.rows.dict_row  # type: ignore[assignment] # that is it
        connection.cursor_factory = psycopg.AsyncClientCursor
        yield Theirs(connection, connection.execute)
        await (connection.commit() if commit else connection.rollback())


def _engine(url: str, driver: str) -> Any:
    if driver == "aiosqlite":
        return create_async_engine(f"sqlite+aiosqlite:///{url}")
    return create_async_engine(url.replace("postgresql:", f"postgresql+{driver}:", 1))


def sqlalchemy_connection(driver: str) -> AsyncTransaction:
    @asynccontextmanager
    async def opened(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
        engine = _engine(url, driver)
        async with engine.connect() as connection:
            yield Theirs(connection, connection.exec_driver_sql)
            await (connection.commit() if commit else connection.rollback())
        await engine.dispose()

    return opened


def sqlalchemy_session(driver: str) -> AsyncTransaction:
    @asynccontextmanager
    async def opened(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
        engine = _engine(url, driver)
        async with AsyncSession(engine) as session:

            async def run(sql: str) -> Any:
                return await session.execute(sqlalchemy.text(sql))

            yield Theirs(session, run)
            await (session.commit() if commit else session.rollback())
        await engine.dispose()

    return opened


@asynccontextmanager
async def sqlite_connection(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
    with sync_sqlite(url, commit=commit) as theirs:

        async def run(sql: str) -> Any:
            return theirs.run(sql)

        yield Theirs(theirs.connection, run)


@asynccontextmanager
async def aiosqlite_connection(url: str, *, commit: bool) -> AsyncIterator[Theirs]:
    async with aiosqlite.connect(url) as connection:
        connection.row_factory = cast("Any", lambda cursor, row: {"row": row})
        yield Theirs(connection, connection.execute)
        await (connection.commit() if commit else connection.rollback())


# --- sync -----------------------------------------------------------------------------------------


@contextmanager
def sync_psycopg(url: str, *, commit: bool) -> Iterator[SyncTheirs]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:
        yield SyncTheirs(connection, connection.execute)
        (connection.commit if commit else connection.rollback)()


@contextmanager
def sync_sqlite(url: str, *, commit: bool) -> Iterator[SyncTheirs]:
    with closing(sqlite3.connect(url)) as connection:
        connection.row_factory = lambda cursor, row: {"row": row}
        yield SyncTheirs(connection, connection.execute)
        (connection.commit if commit else connection.rollback)()


def _sync_engine(url: str) -> sqlalchemy.Engine:
    if url.startswith("postgresql:"):
        return sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    return sqlalchemy.create_engine(f"sqlite:///{url}")


@contextmanager
def sync_sqlalchemy_connection(url: str, *, commit: bool) -> Iterator[SyncTheirs]:
    engine = _sync_engine(url)
    with engine.connect() as connection:
        yield SyncTheirs(connection, connection.exec_driver_sql)
        (connection.commit if commit else connection.rollback)()
    engine.dispose()


@contextmanager
def sync_sqlalchemy_session(url: str, *, commit: bool) -> Iterator[SyncTheirs]:
    engine = _sync_engine(url)
    with Session(engine) as session:
        yield SyncTheirs(session, lambda sql: session.execute(sqlalchemy.text(sql)))
        (session.commit if commit else session.rollback)()
    engine.dispose()


if TYPE_CHECKING:
    AsyncTransaction = Callable[..., AbstractAsyncContextManager[Theirs]]
    SyncTransaction = Callable[..., AbstractContextManager[SyncTheirs]]

# Which database, and how a transaction on it is opened.
ASYNC: dict[str, tuple[str, AsyncTransaction]] = {
    "asyncpg": ("postgres", asyncpg_connection),
    "asyncpg out of a pool": ("postgres", asyncpg_pool),
    "psycopg": ("postgres", psycopg_connection),
    "a SQLAlchemy connection over asyncpg": ("postgres", sqlalchemy_connection("asyncpg")),
    "a SQLAlchemy session over asyncpg": ("postgres", sqlalchemy_session("asyncpg")),
    "a SQLAlchemy connection over psycopg": ("postgres", sqlalchemy_connection("psycopg")),
    "a SQLAlchemy session over psycopg": ("postgres", sqlalchemy_session("psycopg")),
    "sqlite3": ("file", sqlite_connection),
    "aiosqlite": ("file", aiosqlite_connection),
    "a SQLAlchemy connection over aiosqlite": ("file", sqlalchemy_connection("aiosqlite")),
    "a SQLAlchemy session over aiosqlite": ("file", sqlalchemy_session("aiosqlite")),
}
SYNC: dict[str, tuple[str, SyncTransaction]] = {
    "psycopg": ("postgres", sync_psycopg),
    "a SQLAlchemy connection over psycopg": ("postgres", sync_sqlalchemy_connection),
    "a SQLAlchemy session over psycopg": ("postgres", sync_sqlalchemy_session),
    "sqlite3": ("file", sync_sqlite),
    "a SQLAlchemy connection over sqlite3": ("file", sync_sqlalchemy_connection),
    "a SQLAlchemy session over sqlite3": ("file", sync_sqlalchemy_session),
}


async def rows(place: str, sql: str) -> list[tuple[Any, ...]]:
    """Return what another connection sees in the database."""
    if not place.startswith("postgresql:"):
        with closing(sqlite3.connect(place)) as file:
            return file.execute(sql).fetchall()
    settings = {"search_path": "onward, public"}
    connection = await asyncpg.connect(place, server_settings=settings)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()
