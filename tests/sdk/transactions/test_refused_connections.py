"""Unsuitable connections are refused, and their transactions are none the worse."""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
import sys
from contextlib import AsyncExitStack, closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from onward import App, workflow
from onward.errors import StoreUnusable
from onward.testing.postgres import PostgresServer
from tests.kit.transactions import ASYNC, SYNC, asyncpg_connection, rows, sync_psycopg, sync_sqlite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POSTGRES = [name for name, (kind, _) in ASYNC.items() if kind == "postgres"]
FILE = [name for name, (kind, _) in ASYNC.items() if kind == "file"]


@workflow
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "app.db")


@contextmanager
def refused(*facts: str) -> Iterator[None]:
    with pytest.raises(StoreUnusable) as caught:
        yield
    assert [fact for fact in facts if fact not in str(caught.value)] == []


# --- elsewhere ------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", POSTGRES)
async def test_a_connection_to_another_database_of_the_server_is_refused(
    driver: str, postgres_url: str, postgres_server: PostgresServer
) -> None:
    other = postgres_server.create_database()
    async with App(other), App(postgres_url) as app:  # Onward is at home in both
        async with ASYNC[driver][1](other, commit=True) as theirs:
            await theirs.run("CREATE TABLE guest (name TEXT)")
            with refused("cannot write to", "Pass a connection to the same database: asyncpg"):
                await app.within(theirs.connection).start(greet, "Ada")
        assert await rows(other, "SELECT name FROM guest") == []
        assert await rows(other, "SELECT uid FROM onward_run") == []
    postgres_server.drop_database(other)


async def test_a_connection_to_a_copy_of_the_database_on_another_server_is_refused() -> None:
    with PostgresServer.start({}) as one, PostgresServer.start({}) as two:
        # Databases of one name, as after a restore somewhere else.
        urls = [server.url("postgres") for server in (one, two)]
        async with App(urls[0]) as app, App(urls[1]) as other:
            async with asyncpg_connection(urls[1], commit=True) as theirs:
                await other.within(theirs.connection).start(greet, "Ada")
                with refused("cannot write to"):
                    await app.within(theirs.connection).start(greet, "Ada")
            assert await app.counts() == {}
            assert await other.counts() == {"ready": 1}


async def test_a_server_that_was_started_again_is_still_the_same_place() -> None:
    with PostgresServer.start({}) as server:
        url = server.create_database()
        async with App(url) as app:
            for commit in (True, True):
                async with asyncpg_connection(url, commit=commit) as theirs:
                    await app.within(theirs.connection).start(greet, "Ada")
                server.restart()
            assert await app.counts() == {"ready": 2}


@pytest.mark.parametrize("driver", FILE)
async def test_a_connection_to_another_file_is_refused(
    driver: str, file: str, tmp_path: Path
) -> None:
    other = str(tmp_path / "other.db")
    async with App(other), App(file) as app, ASYNC[driver][1](other, commit=True) as theirs:
        with refused("cannot write to", "the same database: sqlite3, aiosqlite"):
            await app.within(theirs.connection).start(greet, "Ada")


@pytest.mark.parametrize("driver", FILE)
async def test_a_connection_to_a_file_is_refused_on_postgres(
    driver: str, postgres_url: str, file: str
) -> None:
    async with App(postgres_url) as app, ASYNC[driver][1](file, commit=True) as theirs:
        with refused("cannot write to"):
            await app.within(theirs.connection).start(greet, "Ada")


@pytest.mark.parametrize("driver", POSTGRES)
async def test_a_connection_to_postgres_is_refused_on_a_file(
    driver: str, postgres_url: str, file: str
) -> None:
    async with App(file) as app, ASYNC[driver][1](postgres_url, commit=True) as theirs:
        with refused("cannot write to"):
            await app.within(theirs.connection).start(greet, "Ada")


# --- of the wrong kind ----------------------------------------------------------------------------


async def test_what_is_no_connection_is_refused_at_once(postgres_url: str, file: str) -> None:
    async with App(postgres_url) as postgres, App(file) as sqlite:
        for app in (postgres, sqlite):
            with refused("builtins.object", "Pass a connection to the same database"):
                app.within(object())


async def test_an_engine_is_no_connection(postgres_url: str, file: str) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    for place in (postgres_url, file):
        async with App(place) as app:
            with refused("AsyncEngine"):
                await app.within(engine).start(greet, "Ada")
            with refused("Engine"):
                await app.within(engine.sync_engine).start(greet, "Ada")
    await engine.dispose()


async def test_a_connection_to_postgres_that_blocks_is_refused_by_the_async_app(
    postgres_url: str,
) -> None:
    facts = ("psycopg.Connection", "psycopg (AsyncConnection)")
    async with App(postgres_url) as app:
        with sync_psycopg(postgres_url, commit=True) as theirs, refused(*facts):
            await app.within(theirs.connection).start(greet, "Ada")


@pytest.mark.parametrize("driver", [name for name in ASYNC if name != "sqlite3"])
def test_a_connection_that_waits_is_refused_by_the_sync_app(
    driver: str, request: pytest.FixtureRequest, file: str
) -> None:
    kind, transaction = ASYNC[driver]
    place = request.getfixturevalue("postgres_url") if kind == "postgres" else file
    advice = "psycopg (Connection)" if kind == "postgres" else "sqlite3, or SQLAlchemy on top of it"
    with App(place).sync() as app:
        opening = AsyncExitStack()
        theirs = app._call(opening.enter_async_context(transaction(place, commit=True)))
        with refused(advice):
            app.within(theirs.connection).start(greet, "Ada")
        app._call(opening.aclose())


# --- without a transaction ------------------------------------------------------------------------


async def test_an_asyncpg_connection_without_a_transaction_is_refused(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    async with App(postgres_url) as app:
        with refused("is not in a transaction", "Begin a transaction first"):
            await app.within(connection).start(greet, "Ada")
        assert await app.counts() == {}
    await connection.close()


async def test_a_psycopg_connection_that_commits_by_itself_is_refused(postgres_url: str) -> None:
    async with App(postgres_url) as app:
        connection = await psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
        async with connection:
            with refused("is not in a transaction"):
                await app.within(connection).start(greet, "Ada")
            async with connection.transaction():
                await app.within(connection).start(greet, "Ada")
        assert await app.counts() == {"ready": 1}


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_a_sqlalchemy_connection_that_commits_by_itself_is_refused(
    driver: str, postgres_url: str
) -> None:
    url = postgres_url.replace("postgresql:", f"postgresql+{driver}:", 1)
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    async with App(postgres_url) as app, engine.connect() as connection:
        with refused("is not in a transaction"):
            await app.within(connection).start(greet, "Ada")
        assert await app.counts() == {}
    await engine.dispose()


async def test_a_sqlite_connection_that_commits_by_itself_is_refused(file: str) -> None:
    async with App(file) as app:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            with refused("is not in a transaction"):
                await app.within(connection).start(greet, "Ada")
            connection.execute("BEGIN")
            await app.within(connection).start(greet, "Ada")
            connection.execute("COMMIT")
        async with aiosqlite.connect(file, isolation_level=None) as waiting:
            with refused("is not in a transaction"):
                await app.within(waiting).start(greet, "Ada")
        assert await app.counts() == {"ready": 1}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="`autocommit` came with Python 3.12")
@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_sqlite_connection_tells_by_its_newer_setting_too(
    file: str, autocommit: bool
) -> None:
    given: dict[str, Any] = {"autocommit": autocommit}
    async with App(file) as app:
        with closing(sqlite3.connect(file, **given)) as blocking:
            with refused("is not in a transaction") if autocommit else nullcontext():
                await app.within(blocking).start(greet, "Ada")
            blocking.commit()
        async with aiosqlite.connect(file, **given) as waiting:
            with refused("is not in a transaction") if autocommit else nullcontext():
                await app.within(waiting).start(greet, "Ada")
            await waiting.commit()
        assert await app.counts() == ({} if autocommit else {"ready": 2})


# --- without the right to write -------------------------------------------------------------------

LESS = """CREATE ROLE {role} LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO {role}; {grants}"""


@pytest.mark.parametrize("grants", ["", "GRANT USAGE ON SCHEMA onward TO {role};"])
async def test_a_user_who_may_not_insert_keeps_its_transaction(
    postgres_url: str, grants: str
) -> None:
    role = f"guest_{secrets.token_hex(4)}"  # roles belong to the server, which other tests share
    async with (
        App(postgres_url) as app,
        asyncpg.create_pool(postgres_url, min_size=1) as pool,
        pool.acquire() as admin,
    ):
        await admin.execute(LESS.format(role=role, grants=grants.format(role=role)))
        await admin.execute(f"SET ROLE {role}")
        async with admin.transaction():
            await admin.execute("CREATE TABLE guest (name TEXT)")
            with refused("may not insert", "USAGE on schema onward"):
                await app.within(admin).start(greet, "Ada")
        assert await admin.fetch("SELECT * FROM guest") == []
        await admin.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")


async def test_a_transaction_that_only_reads_goes_on(postgres_url: str) -> None:
    async with App(postgres_url) as app:
        connection = await asyncpg.connect(postgres_url)
        async with connection.transaction(readonly=True):
            with refused("is read-only"):
                await app.within(connection).start(greet, "Ada")
            assert await connection.fetchval("SELECT 1") == 1
        await connection.close()


# --- what is imported -----------------------------------------------------------------------------

LOADED = """
import asyncio, sqlite3, sys
from onward import App
from onward.errors import StoreUnusable

async def main(place, connection):
    async with App(place) as app:
        try:
            await app.within(connection).signal("missing", "hello")
        except (LookupError, StoreUnusable):
            pass

asyncio.run(main(sys.argv[1], sqlite3.connect(sys.argv[1])))
asyncio.run(main(sys.argv[1], object()))
print(*sys.modules)
"""


def test_no_driver_is_imported_that_the_user_does_not_use(file: str) -> None:
    command = [sys.executable, "-c", LOADED, file]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    loaded = set(answer.stdout.split())
    assert "onward.store.sqlite.callers" in loaded
    assert loaded & {"aiosqlite", "asyncpg", "psycopg", "sqlalchemy", "redis"} == set()


# --- the sync app ---------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", SYNC)
def test_the_sync_app_refuses_another_database_too(
    driver: str, postgres_url: str, postgres_server: PostgresServer, file: str, tmp_path: Path
) -> None:
    kind, transaction = SYNC[driver]
    other = postgres_server.create_database() if kind == "postgres" else str(tmp_path / "other.db")
    ours = postgres_url if kind == "postgres" else file
    with (
        App(ours).sync() as app,
        App(other).sync(),
        transaction(other, commit=True) as theirs,
        refused("cannot write to"),
    ):
        app.within(theirs.connection).start(greet, "Ada")
    if kind == "postgres":
        postgres_server.drop_database(other)


def test_the_sync_app_refuses_connections_that_commit_by_themselves(
    postgres_url: str, file: str
) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{file}", isolation_level="AUTOCOMMIT")
    with (
        App(postgres_url).sync() as app,
        psycopg.connect(postgres_url, autocommit=True) as connection,
        refused("is not in a transaction"),
    ):
        app.within(connection).start(greet, "Ada")
    with App(file).sync() as app:
        with engine.connect() as theirs, refused("is not in a transaction"):
            app.within(theirs).start(greet, "Ada")
        with sync_sqlite(file, commit=True) as fine:
            app.within(fine.connection).start(greet, "Ada")
        assert app.counts() == {"ready": 1}
    engine.dispose()
