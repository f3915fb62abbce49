"""The network between a client and a real Postgres, losing what it is told to lose."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest

from onward.testing.proxy import LossyProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward.testing.postgres import PostgresServer

LOST = (asyncpg.ConnectionDoesNotExistError, asyncpg.InterfaceError, ConnectionError)

INSERT = "INSERT INTO t VALUES ($1)"


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
def url(postgres_url: str) -> str:
    async def make_table() -> None:
        async with connected(postgres_url) as connection:
            await connection.execute("CREATE TABLE t (x int)")

    asyncio.run(make_table())
    return postgres_url


async def stored(url: str) -> list[int]:
    async with connected(url) as connection:
        return [row["x"] for row in await connection.fetch("SELECT x FROM t ORDER BY x")]


# --- without faults -------------------------------------------------------------------------------


async def test_queries_of_every_kind_pass(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        await connection.execute("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
        await connection.execute(INSERT, 3)
        await connection.executemany(INSERT, [(4,), (5,)])
        await connection.copy_records_to_table("t", records=[(6,), (7,)])
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.fetchval("SELECT 1 / 0")
        async with connection.transaction():
            async for _ in connection.cursor("SELECT x FROM t", prefetch=2):
                pass
        assert len(await connection.fetchval("SELECT repeat('x', 3000000)")) == 3_000_000

    assert await stored(url) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_server_behind_a_port_and_a_password_can_be_reached(
    postgres_server: PostgresServer, url: str
) -> None:
    by_port = postgres_server.url(urlsplit(url).path[1:], tcp=True)

    async with LossyProxy(by_port) as proxy, connected(proxy.url) as connection:
        assert await connection.fetchval("SELECT count(*) FROM t") == 0


async def test_a_request_to_cancel_passes(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        with pytest.raises(TimeoutError):
            await connection.fetchval("SELECT pg_sleep(60)", timeout=0.05)

        assert await connection.fetchval("SELECT 1") == 1


async def test_a_notification_passes_without_a_request(url: str) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with LossyProxy(url) as proxy, connected(proxy.url) as listener:
        await listener.add_listener("news", lambda *args: heard.put_nowait(args[3]))
        async with connected(url) as speaker:
            await speaker.execute("NOTIFY news, 'hello'")
        assert await heard.get() == "hello"


async def test_round_trips_and_statements_are_counted(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        assert (proxy.round_trips, proxy.queries) == (0, 0)

        insert = await connection.prepare(INSERT)
        assert (proxy.round_trips, proxy.queries) == (1, 0)
        await insert.fetch(1)
        assert (proxy.round_trips, proxy.queries) == (2, 1)
        await insert.executemany([(2,), (3,), (4,)])
        assert (proxy.round_trips, proxy.queries) == (3, 4)


async def test_the_end_of_the_server_reaches_the_client(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        gone = asyncio.Event()
        connection.add_termination_listener(lambda _: gone.set())

        async with connected(url) as killer:
            pid = connection.get_server_pid()
            await killer.execute(f"SELECT pg_terminate_backend({pid})")

        await gone.wait()


async def test_a_server_that_is_away_refuses_through_the_proxy() -> None:
    async with LossyProxy("postgresql://postgres@127.0.0.1:1/none") as proxy:
        with pytest.raises((OSError, *LOST)):
            await asyncpg.connect(proxy.url)


# --- lost replies ---------------------------------------------------------------------------------


async def test_a_lost_reply_breaks_the_connection_after_the_commit(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        fault = proxy.drop_reply_after_commit(b"INSERT")

        with pytest.raises(LOST):
            await connection.execute(INSERT, 1)

        assert fault.happened.is_set()
    assert await stored(url) == [1]


async def test_a_prepared_statement_is_recognised_by_its_text(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        insert = await connection.prepare(INSERT)
        select = await connection.prepare("SELECT 1")
        proxy.drop_reply_after_commit(b"INSERT INTO t")

        assert await select.fetchval() == 1
        with pytest.raises(LOST):
            await insert.fetch(1)

    assert await stored(url) == [1]


async def test_the_reply_to_a_commit_of_several_statements_can_be_lost(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        proxy.drop_reply_after_commit(b"COMMIT")
        await connection.execute("BEGIN")
        await connection.execute(INSERT, 1)
        await connection.execute(INSERT, 2)

        with pytest.raises(LOST):
            await connection.execute("COMMIT")

    assert await stored(url) == [1, 2]


async def test_a_long_reply_is_lost_whole(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        proxy.drop_reply_after_commit(b"generate_series")
        rows = "INSERT INTO t SELECT generate_series(1, 50000) RETURNING x"

        with pytest.raises(LOST):
            await connection.fetch(rows)

    assert len(await stored(url)) == 50_000


async def test_preparing_alone_is_not_what_a_fault_waits_for(url: str) -> None:
    def frame(kind: bytes, body: bytes = b"") -> bytes:
        return kind + (len(body) + 4).to_bytes(4, "big") + body

    database = urlsplit(url).path[1:].encode()
    hello = b"\0\3\0\0user\0postgres\0database\0" + database + b"\0\0"
    prepare = frame(b"P", b"one\0INSERT INTO t VALUES (1)\0\0\0") + frame(b"S")
    execute = frame(b"B", b"\0one" + bytes(7)) + frame(b"E", bytes(5)) + frame(b"S")

    async with LossyProxy(url) as proxy:
        port = urlsplit(proxy.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with closing(writer):
            fault = proxy.drop_reply_after_commit()
            writer.write(frame(b"", hello) + prepare)
            for _ in range(2):  # ready after the greeting, and after preparing with a Sync
                await reader.readuntil(b"Z\0\0\0\5I")
            assert not fault.happened.is_set()

            writer.write(execute)

            assert await reader.read() == b""
    assert await stored(url) == [1]


async def test_some_can_be_let_pass_first_on_any_connection(url: str) -> None:
    async with (
        LossyProxy(url) as proxy,
        connected(proxy.url) as one,
        connected(proxy.url) as other,
    ):
        proxy.drop_reply_after_commit(b"INSERT", skip=2)

        await one.execute(INSERT, 1)
        await other.fetchval("SELECT 1")
        await other.execute(INSERT, 2)
        with pytest.raises(LOST):
            await one.execute(INSERT, 3)
        await other.execute(INSERT, 4)

    assert await stored(url) == [1, 2, 3, 4]


# --- lost requests --------------------------------------------------------------------------------


async def test_a_lost_request_never_reaches_the_server(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        fault = proxy.drop_request(b"INSERT")

        with pytest.raises(LOST):
            await connection.execute(INSERT, 1)

        assert fault.happened.is_set()
    assert await stored(url) == []


async def test_two_faults_hit_two_requests(url: str) -> None:
    async with LossyProxy(url) as proxy:
        proxy.drop_request(b"INSERT")
        proxy.drop_reply_after_commit(b"INSERT")
        for number in (1, 2):
            async with connected(proxy.url) as connection:
                with pytest.raises(LOST):
                    await connection.execute(INSERT, number)

    assert await stored(url) == [2]


# --- the rest -------------------------------------------------------------------------------------


async def test_a_frozen_network_holds_everything_until_it_thaws(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        proxy.freeze()
        asked = asyncio.create_task(connection.execute(INSERT, 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asked), 0.05)
        assert await stored(url) == []

        proxy.thaw()

        await asked
    assert await stored(url) == [1]


async def test_a_fault_that_is_never_met_fails_the_test(url: str) -> None:
    with pytest.raises(AssertionError, match="never triggered"):
        async with LossyProxy(url) as proxy:
            proxy.drop_request(b"INSERT")


async def test_a_fault_can_be_taken_back(url: str) -> None:
    async with LossyProxy(url) as proxy, connected(proxy.url) as connection:
        proxy.drop_request(b"INSERT")

        proxy.disarm()

        await connection.execute(INSERT, 1)
    assert await stored(url) == [1]


async def test_an_error_in_the_block_is_not_hidden_by_the_unmet_fault(url: str) -> None:
    proxy = LossyProxy(url)
    proxy.drop_request(b"INSERT")

    with pytest.raises(ZeroDivisionError):
        async with proxy:
            raise ZeroDivisionError
