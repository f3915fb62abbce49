"""`onward migrate`: who may change the schema, what was done, and what would be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from onward.store.migrations import known
from tests.postgres.hand import hand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask

GRANTS = (
    "GRANT USAGE ON SCHEMA onward TO shop_app",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onward TO shop_app",
)


@pytest.fixture(scope="session")
def postgres_template() -> None:
    """Databases here begin without tables."""


@workflow
async def hello(name: str) -> str:
    return f"Hello, {name}!"


def test_a_database_is_created_once(url: str, ask: Ask) -> None:
    planned = ask("migrate", "--db", url, "--dry-run", "--json").thing
    assert (planned["from"], planned["to"], planned["dry_run"]) == (0, known(), True)
    assert ask("runs", "list", "--db", url).status == 2
    assert f"schema {known()} was created." in ask("migrate", "--db", url).out
    assert ask("runs", "list", "--db", url).status == 0
    assert f"has schema {known()}: nothing to do." in ask("migrate", "--db", url).out


def test_a_dry_run_makes_no_file(ask: Ask, tmp_path: Path) -> None:
    assert "would be created" in ask("migrate", "--dry-run").out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_a_database_in_memory_is_refused(flags: tuple[str, ...], ask: Ask) -> None:
    answer = ask("migrate", "--db", ":memory:", *flags)
    assert answer.status == 2
    assert "exists only in the process that opened it" in answer.err


def test_a_role_without_rights_works_after_an_owner_has_migrated(
    postgres_url: str, ask: Ask
) -> None:
    limited = postgres_url.replace("postgres@", "shop_app@")
    run_sql(postgres_url, "CREATE ROLE shop_app LOGIN")
    try:
        refused = ask("migrate", "--db", limited)
        assert refused.status == 2
        assert "Run 'onward migrate' as a role that may create it" in refused.err
        assert ask("migrate", "--db", postgres_url).status == 0
        assert "grant this user USAGE on it" in ask("runs", "list", "--db", limited).err
        run_sql(postgres_url, GRANTS[0])
        without_tables = ask("runs", "list", "--db", limited).err
        assert "Grant this user SELECT, INSERT, UPDATE and DELETE on all tables" in without_tables
        assert "USAGE" not in without_tables
        run_sql(postgres_url, GRANTS[1])
        assert "nothing to do" in ask("migrate", "--db", limited).out
        with App(limited).sync() as app, app.worker(workflows=[hello]):
            assert app.run(hello, "Ada") == "Hello, Ada!"
    finally:
        run_sql(postgres_url, "DROP OWNED BY shop_app CASCADE", "DROP ROLE shop_app")


def run_sql(url: str, *statements: str) -> None:
    async def run() -> None:
        async with hand(url) as owner:
            for statement in statements:
                await owner.run(statement)

    asyncio.run(run())
