"""The schema: migrated once by whoever comes first, refused from the future, alike everywhere."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

import asyncpg
import pytest

from onward.errors import SchemaTooNew
from onward.model.messages import InboxRow
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun, RunEnd, RunRow
from onward.store import open_store
from onward.store.migrations import known
from onward.store.statements import Dialect, tables
from tests.conformance.suite.samples import a_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onward.testing.postgres import PostgresServer


class Column(NamedTuple):
    """A column, in words that both databases share."""

    table: str
    name: str
    kind: str
    required: bool
    default: str | None


@pytest.fixture
def empty_postgres(postgres_server: PostgresServer) -> Iterator[str]:
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that nobody has opened yet."""
    if request.param == "sqlite":
        return str(tmp_path / "onward.db")
    empty: str = request.getfixturevalue("empty_postgres")
    return empty


async def ask(url: str, statement: str) -> list[tuple[object, ...]]:
    """Ask a database past the store."""
    if not url.startswith("postgresql"):
        connection = sqlite3.connect(url)
        rows = connection.execute(statement).fetchall()
        connection.commit()
        connection.close()
        return rows
    remote = await asyncpg.connect(url, server_settings={"search_path": "onward"})
    try:
        return [tuple(row) for row in await remote.fetch(statement)]
    finally:
        await remote.close()


async def test_a_new_database_is_migrated_when_it_is_opened(url: str) -> None:
    async with open_store(url) as store:
        assert (await store.start(a_run("a"))).created

    assert await ask(url, "SELECT value FROM onward_meta WHERE name = 'schema'") == [(known(),)]


async def test_opening_again_changes_nothing(url: str) -> None:
    async with open_store(url) as store:
        await store.start(a_run("a"))

    async with open_store(url) as store:
        assert await store.counts() == {"ready": 1}
    assert await ask(url, "SELECT value FROM onward_meta WHERE name = 'schema'") == [(known(),)]


async def test_stores_that_open_a_new_database_at_once_migrate_it_once(url: str) -> None:
    stores = [open_store(url) for _ in range(5)]

    await asyncio.gather(*(store.__aenter__() for store in stores))

    for number, store in enumerate(stores):
        assert (await store.start(a_run(str(number)))).created
    await asyncio.gather(*(store.__aexit__(None, None, None) for store in stores))


async def test_a_schema_from_the_future_is_refused_and_left_alone(url: str) -> None:
    async with open_store(url):
        pass
    await ask(url, "UPDATE onward_meta SET value = 999 WHERE name = 'schema'")

    with pytest.raises(SchemaTooNew, match="has schema 999") as refused:
        await open_store(url).__aenter__()

    assert "Upgrade Onward" in str(refused.value)
    assert await ask(url, "SELECT value FROM onward_meta WHERE name = 'schema'") == [(999,)]


# --- both databases -------------------------------------------------------------------------------

KINDS = {
    "text": "text",
    "integer": "integer",
    "bigint": "integer",
    "blob": "bytes",
    "bytea": "bytes",
}


def plain(default: object) -> str | None:
    """Return a default without the casts that Postgres adds to it."""
    return None if default is None else re.sub(r"::\w+$", "", str(default))


async def sqlite_columns(path: Path) -> set[Column]:
    async with open_store(str(path)):
        pass
    rows = await ask(
        str(path),
        'SELECT t.name, c.name, c.type, c."notnull", c.dflt_value FROM sqlite_master t,'
        " pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name LIKE 'onward_%'",
    )
    return {
        Column(str(t), str(c), KINDS[str(kind).lower()], bool(required), plain(default))
        for t, c, kind, required, default in rows
    }


async def postgres_columns(url: str) -> set[Column]:
    async with open_store(url):
        pass
    rows = await ask(
        url,
        "SELECT table_name, column_name, data_type, is_nullable = 'NO', column_default"
        " FROM information_schema.columns WHERE table_schema = 'onward'",
    )
    return {
        Column(str(t), str(c), KINDS[str(kind)], bool(required), plain(default))
        for t, c, kind, required, default in rows
    }


async def test_both_databases_have_the_same_tables_and_columns(
    tmp_path: Path, empty_postgres: str
) -> None:
    sqlite, postgres = (
        await sqlite_columns(tmp_path / "x.db"),
        await postgres_columns(empty_postgres),
    )

    assert sqlite == postgres
    assert {column.table for column in sqlite} == tables()


async def test_both_databases_have_the_same_indexes(tmp_path: Path, empty_postgres: str) -> None:
    path = tmp_path / "x.db"
    await sqlite_columns(path)
    await postgres_columns(empty_postgres)

    here = await ask(str(path), "SELECT name FROM sqlite_master WHERE type = 'index' AND sql <> ''")
    there = await ask(
        empty_postgres,
        "SELECT indexname FROM pg_indexes"
        " WHERE schemaname = 'onward' AND indexname NOT LIKE '%_pkey'",
    )

    assert here
    assert set(here) == set(there)


async def test_the_namespace_comes_first_in_every_key(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await sqlite_columns(path)

    keys = await ask(
        str(path),
        "SELECT t.name, l.name, i.name FROM sqlite_master t, pragma_index_list(t.name) l,"
        " pragma_index_info(l.name) i WHERE t.type = 'table' AND i.seqno = 0",
    )

    first = {(table, column) for table, _, column in keys}
    shared = {"onward_meta", "onward_namespace"}
    assert first == {(table, "namespace") for table in tables() - shared} | {
        ("onward_meta", "name"),
        ("onward_namespace", "name"),
        ("onward_api_key", "id"),  # the namespace of a request follows from its key
        ("onward_input", "pipeline"),  # the namespace is second: see the migration
    }


# --- statements -----------------------------------------------------------------------------------

FILLED: dict[str, tuple[str, ...]] = {
    "run_by_uid": RunRow._fields,
    "newest_run": RunRow._fields,
    "list_any": RunRow._fields,
    "list_top": RunRow._fields,
    "list_family": RunRow._fields,
    "run_end": RunEnd._fields,
    "run_ends": RunEnd._fields,
    "history": RecordRow._fields,
    "look": InboxRow._fields,
    "claim": (*ClaimedRun._fields, "is_cut"),
    "claim_sized": (*ClaimedRun._fields, "is_cut"),
}


@pytest.mark.parametrize("database_time", [True, False])
async def test_every_statement_can_be_prepared_on_postgres(
    empty_postgres: str, database_time: bool
) -> None:
    async with open_store(empty_postgres):
        pass
    dialect = Dialect(postgres=True, database_time=database_time)
    connection = await asyncpg.connect(empty_postgres)
    for statement in dialect.statements().values():
        prepared = await connection.prepare(statement.sql)
        assert len(prepared.get_parameters()) == len(statement.parameters), statement.name
    await connection.close()


@pytest.mark.parametrize("name", FILLED)
async def test_a_row_has_the_columns_of_the_statement_that_fills_it_on_postgres(
    empty_postgres: str, name: str
) -> None:
    async with open_store(empty_postgres):
        pass
    connection = await asyncpg.connect(empty_postgres)
    prepared = await connection.prepare(Dialect(postgres=True).statements()[name].sql)
    columns = tuple(attribute.name for attribute in prepared.get_attributes())
    await connection.close()

    assert columns == FILLED[name]


async def test_every_statement_can_be_prepared_on_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await sqlite_columns(path)
    connection = sqlite3.connect(path)
    for statement in Dialect().statements().values():
        values = [None] * len(statement.parameters)
        connection.execute(f"EXPLAIN {statement.sql}", values)
    connection.close()
