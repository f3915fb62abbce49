"""A real Postgres for tests: the one that is found here, and the one in the wheel."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from onward.errors import StoreUnusable
from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.testing.cluster import StopMode

MODES: list[StopMode] = ["immediate", "fast", "smart"]


@pytest.fixture(scope="module", params=["found", "wheel"])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    environ = {"PATH": os.environ["PATH"]}
    if request.param == "wheel":
        environ["ONWARD_TEST_POSTGRES_BIN"] = "wheel"
    with PostgresServer.start(environ) as running:
        yield running


async def ask(url: str, *statements: str) -> object:
    """Return the first value of the last statement's answer."""
    connection = await asyncpg.connect(url)
    try:
        answers = [await connection.fetchval(statement) for statement in statements]
    finally:
        await connection.close()
    return answers[-1]


def folder_of(server: PostgresServer) -> Path:
    return Path(parse_qs(urlsplit(server.url("postgres")).query)["host"][0])


# --- databases ------------------------------------------------------------------------------------


async def test_what_one_database_holds_another_does_not(server: PostgresServer) -> None:
    one, other = server.create_database(), server.create_database()

    await ask(one, "CREATE TABLE t (x int)")

    with pytest.raises(asyncpg.UndefinedTableError):
        await ask(other, "SELECT count(*) FROM t")


async def test_a_copy_of_a_template_starts_with_what_was_prepared(server: PostgresServer) -> None:
    template = server.template("seven", lambda url: _prepare_in_a_thread(url, 7))

    copies = [server.create_database(template) for _ in range(2)]

    await ask(copies[0], "UPDATE t SET x = 8")
    assert await ask(copies[1], "SELECT x FROM t") == 7


def _prepare_in_a_thread(url: str, number: int) -> None:
    async def prepare() -> None:
        await ask(url, f"CREATE TABLE t AS SELECT {number} AS x")

    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, prepare()).result()


def test_a_template_is_prepared_once(server: PostgresServer) -> None:
    prepared: list[str] = []

    assert server.template("once", prepared.append) == server.template("once", prepared.append)

    assert len(prepared) == 1


async def test_nobody_can_connect_to_a_template(server: PostgresServer) -> None:
    template = server.template("closed", lambda url: None)

    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await ask(server.url(template), "SELECT 1")


async def test_a_database_is_dropped_from_under_its_connections(server: PostgresServer) -> None:
    url = server.create_database()
    connection = await asyncpg.connect(url)

    server.drop_database(url)

    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError)):
        await connection.fetchval("SELECT 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await ask(url, "SELECT 1")


# --- addresses ------------------------------------------------------------------------------------


async def test_socket_and_port_lead_to_the_same_database(server: PostgresServer) -> None:
    url = server.create_database()
    by_port = server.url(urlsplit(url).path[1:], tcp=True)

    await ask(url, "CREATE TABLE t AS SELECT 5 AS x")

    assert urlsplit(by_port).hostname == "127.0.0.1"
    assert await ask(by_port, "SELECT x FROM t") == 5


async def test_the_port_is_closed_to_those_without_the_password(server: PostgresServer) -> None:
    parts = urlsplit(server.url("postgres", tcp=True))
    without = parts._replace(netloc=f"postgres:guess@127.0.0.1:{parts.port}").geturl()

    with pytest.raises(asyncpg.InvalidPasswordError):
        await ask(without, "SELECT 1")


def test_the_socket_is_closed_to_other_accounts(server: PostgresServer) -> None:
    assert folder_of(server).stat().st_mode & 0o077 == 0


def test_the_server_does_not_run_as_root(server: PostgresServer) -> None:
    assert (folder_of(server) / "data" / "postmaster.pid").stat().st_uid != 0


# --- breaking it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_an_acknowledged_commit_survives_a_restart(
    server: PostgresServer, mode: StopMode
) -> None:
    url = server.create_database()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE t (x int)")
    for number in range(20):
        await connection.execute("INSERT INTO t VALUES ($1)", number)

    if mode == "smart":
        await connection.close()  # it waits for every client to leave
    server.restart(mode)

    connection.terminate()
    assert await ask(url, "SELECT count(*) FROM t") == 20


async def test_while_the_server_is_down_nobody_can_connect(server: PostgresServer) -> None:
    url = server.create_database()

    with server.down():
        for address in (url, server.url("postgres", tcp=True)):
            with pytest.raises(OSError):  # noqa: PT011
                await ask(address, "SELECT 1")

    assert await ask(url, "SELECT 1") == 1


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(StoreUnusable, match=r"did not start.*no_such_setting"):
        PostgresServer.start(settings={"no_such_setting": "1"})


async def test_settings_can_be_changed() -> None:
    with PostgresServer.start(settings={"wal_level": "logical"}) as server:
        assert await ask(server.url("postgres"), "SHOW wal_level") == "logical"


# --- somebody else's server -----------------------------------------------------------------------


async def test_a_running_server_can_be_used_instead(postgres_server: PostgresServer) -> None:
    address = postgres_server.url("postgres")
    with PostgresServer.start({"ONWARD_TEST_POSTGRES_URL": address}) as guest:
        url = guest.create_database(guest.template("empty", lambda url: None))
        assert await ask(url, "SELECT 1") == 1

    left = "SELECT count(*) FROM pg_database WHERE datname = $1"
    connection = await asyncpg.connect(address)
    assert await connection.fetchval(left, urlsplit(url).path[1:]) == 0
    await connection.close()
    assert not guest._databases


def test_a_running_server_is_not_ours_to_stop(postgres_server: PostgresServer) -> None:
    guest = PostgresServer.start({"ONWARD_TEST_POSTGRES_URL": postgres_server.url("postgres")})

    with pytest.raises(StoreUnusable, match="not a private server"):
        guest.restart()


# --- the fixtures ---------------------------------------------------------------------------------


async def test_each_test_has_an_empty_database(postgres_url: str) -> None:
    await ask(postgres_url, "CREATE TABLE once (x int)")


async def test_the_next_test_has_another(postgres_url: str) -> None:
    await ask(postgres_url, "CREATE TABLE once (x int)")
