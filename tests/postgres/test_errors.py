"""Errors that say what is wrong with the server or the address, and what to do about it."""

import subprocess
import sys
import time

import asyncpg
import pytest

from onward.errors import (
    NotFound,
    NotOpen,
    OnwardError,
    Rejected,
    SchemaTooNew,
    StoreUnusable,
    Unavailable,
)
from onward.store import open_store
from onward.store.database import Tx
from onward.store.postgres import pool
from onward.testing.postgres import PostgresServer
from tests.kit.leaks import shown
from tests.postgres.builders import a_run
from tests.postgres.hand import hand

SECRET = "correct-horse"

NO_ASYNCPG = """
import sys
sys.modules["asyncpg"] = None
from onward.store import open_store
from onward.errors import StoreUnusable
open_store(":memory:")
try:
    open_store("postgresql://somebody:secret@localhost/onward")
except StoreUnusable as error:
    print(error)
"""


async def refusal(url: str) -> OnwardError:
    """Return the error with which a store refuses to open."""
    began = time.monotonic()
    with pytest.raises(OnwardError) as told:
        async with open_store(url):
            raise AssertionError("it opened")
    if not isinstance(told.value, Unavailable):
        # What will not pass is not waited for.
        assert time.monotonic() - began < pool.PATIENCE_SECONDS
    assert SECRET not in shown(told.value)
    return told.value


async def test_a_wrong_password_is_told_at_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.url("postgres", tcp=True)
    user, _, place = url.rpartition("@")
    error = await refusal(f"{user.rpartition(':')[0]}:{SECRET}@{place}")
    assert isinstance(error, StoreUnusable)
    assert "refused the password. Check the user and the password in the address" in str(error)


async def test_a_user_that_is_not_there_is_told_at_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.url("postgres").replace("postgres@", f"nobody:{SECRET}@")
    error = await refusal(url)
    assert isinstance(error, StoreUnusable)
    assert "refused this user" in str(error)


async def test_a_missing_database_is_told_with_the_way_to_make_it(
    postgres_server: PostgresServer,
) -> None:
    error = await refusal(postgres_server.url("nowhere"))
    assert isinstance(error, StoreUnusable)
    assert "names a database that does not exist. Create it: createdb" in str(error)


async def test_a_server_that_is_away_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 0.2)
    error = await refusal(f"postgresql://somebody:{SECRET}@127.0.0.1:1/onward")
    assert isinstance(error, Unavailable)
    assert "cannot be reached" in str(error)


@pytest.mark.parametrize(
    "option",
    [
        f"sslmode={SECRET}",
        f"no_such_setting={SECRET}",
        f"port={SECRET}",
        f"statement_timeout={SECRET}",
        f"password={SECRET}&target_session_attrs={SECRET}",
    ],
)
async def test_an_option_that_nobody_knows_is_told_at_once(postgres_url: str, option: str) -> None:
    error = await refusal(f"{postgres_url}&{option}")
    assert isinstance(error, StoreUnusable)
    assert "Check the options in the address" in str(error)


async def test_a_user_who_may_not_create_the_schema_is_told_who_may(empty_url: str) -> None:
    async with hand(empty_url) as owner:
        await owner.run("CREATE ROLE plain LOGIN")
        try:
            error = await refusal(empty_url.replace("postgres@", "plain@"))
            assert isinstance(error, StoreUnusable)
            assert "Run 'onward migrate' as a role that may create it" in str(error)
        finally:
            await owner.run("DROP OWNED BY plain CASCADE")
            await owner.run("DROP ROLE plain")


async def test_a_user_who_was_given_a_schema_needs_no_more(empty_url: str) -> None:
    async with hand(empty_url) as owner:
        await owner.run("CREATE ROLE plain LOGIN")
        await owner.run("CREATE SCHEMA onward AUTHORIZATION plain")
        try:
            async with open_store(empty_url.replace("postgres@", "plain@")) as store:
                assert (await store.start(a_run("r"))).created
        finally:
            await owner.run("DROP OWNED BY plain CASCADE")
            await owner.run("DROP ROLE plain")


async def test_a_schema_of_a_newer_onward_is_left_alone(postgres_url: str) -> None:
    async with hand(postgres_url) as newer:
        await newer.run("UPDATE onward.onward_meta SET value = 99 WHERE name = 'schema'")
        error = await refusal(postgres_url)
        assert isinstance(error, SchemaTooNew)
        assert "has schema 99" in str(error)
        assert "Upgrade Onward" in str(error)


async def test_a_store_that_was_closed_says_so(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        pass
    with pytest.raises(NotOpen, match="is not open here"):
        await store.counts()
    async with store:
        assert await store.counts() == {}


async def test_an_error_of_a_closure_undoes_it_and_keeps_the_connection(postgres_url: str) -> None:
    async def refuse(tx: Tx) -> None:
        await tx.fetch("subscribe", topic="mail", handler="rows", keyed=0, earliest=0)
        raise NotFound("run", "r", "default")

    sql = "SELECT pid FROM pg_stat_activity WHERE application_name = 'onward'"
    async with open_store(postgres_url) as store, hand(postgres_url) as eyes:
        await store.counts()
        before = set(await eyes.run(sql))
        for _ in range(3):
            with pytest.raises(NotFound):
                await store.write(refuse)
        assert await store.counts() == {}
        assert before <= set(await eyes.run(sql))  # another may be opened beside, to listen
        assert await eyes.value("SELECT count(*) FROM onward.onward_subscription") == 0


def test_without_the_driver_the_message_names_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_ASYNCPG], capture_output=True, text=True, check=True
    )
    assert "pip install 'onward[postgres]'" in done.stdout
    assert "secret" not in done.stdout


async def test_an_unknown_host_is_told_within_seconds() -> None:
    began = time.monotonic()
    error = await refusal("postgresql://somebody@no-such-host.invalid/onward")
    assert "host 'no-such-host.invalid' cannot be resolved" in str(error)
    assert time.monotonic() - began < 6.0


async def test_a_row_that_is_refused_is_not_quoted(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        with pytest.raises(Rejected) as told:
            await store.start(a_run(SECRET)._replace(kind="elsewhere"))
        assert isinstance(told.value.__cause__, asyncpg.CheckViolationError)
        assert SECRET not in shown(told.value)
