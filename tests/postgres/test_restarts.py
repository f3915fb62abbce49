"""The server goes away and comes back; what it acknowledged is there, and nobody hangs."""

import asyncio
from functools import partial
from typing import Any

import pytest

from onward.errors import Unavailable
from onward.store import open_store
from onward.store.address import PostgresAddress, parse
from onward.store.invariants import check
from onward.store.postgres import pool
from onward.testing.postgres import PostgresServer
from tests.postgres.builders import WORKER, a_run
from tests.postgres.hand import hand, until
from tests.postgres.load import load
from tests.postgres.writes import WRITES, prepare

HANG_UP = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'onward' AND datname = current_database()
             ORDER BY random() LIMIT $1"""

# The server keeps the first kilobyte of a statement; starts are the ones that begin like this.
SOMEBODY_TRIED = """SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = 'onward' AND datname = current_database()
                      AND query LIKE '%WITH patience AS%'"""


async def test_nothing_acknowledged_is_lost_when_the_server_crashes_under_load(
    own_server: PostgresServer, own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PATIENCE_SECONDS", 60)
    async with open_store(own_url) as store:
        async with load(store) as work:
            for _ in range(3):
                await asyncio.to_thread(own_server.restart, "immediate")
                await work.more(200)
        assert work.refused == 0  # it was away for less than our patience
        assert await store.renew_lease(WORKER) is not None
        assert await check(store) == []


async def test_nothing_is_lost_or_doubled_when_connections_are_cut_all_the_time(
    own_url: str,
) -> None:
    async with open_store(own_url) as store, hand(own_url) as killer:
        async with load(store) as work:
            for number in range(100):
                await killer.run(HANG_UP, number % 3 + 1)
                await work.more(3)
        assert await check(store) == []


async def test_a_server_that_stays_away_is_told_in_bounded_time_and_then_used_again(
    own_server: PostgresServer, own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(own_url) as store:
        await prepare(store)
        with own_server.down(), monkeypatch.context() as meanwhile:
            meanwhile.setattr(pool, "PATIENCE_SECONDS", 0.5)
            calls = [store.counts(), *(write.call(store) for write in WRITES.values())]
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(answer) for answer in answers} == {Unavailable}
        assert (await store.start(a_run("after"))).created
        assert await check(store) == []


async def test_a_call_made_while_the_server_is_away_is_answered_when_it_is_back(
    own_server: PostgresServer, own_url: str
) -> None:
    async with open_store(own_url) as store:
        with own_server.down():
            task = asyncio.ensure_future(store.start(a_run("r")))
            await asyncio.sleep(0)
        assert (await task).created


async def test_a_server_that_takes_no_writes_for_a_while_is_waited_for(own_url: str) -> None:
    """As a server that was demoted, until its successor has the address."""
    async with hand(own_url) as admin, open_store(own_url) as store:
        name = await admin.value("SELECT current_database()")
        await admin.run(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        await admin.run(HANG_UP, 100)
        task = asyncio.ensure_future(store.start(a_run("r")))
        await until(partial(admin.value, SOMEBODY_TRIED))
        assert not task.done()
        await admin.run("SET default_transaction_read_only = off")
        await admin.run(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        assert (await task).created  # on a new connection, which may lead to another server


async def test_a_connection_that_the_server_hung_up_is_not_tried_again(own_url: str) -> None:
    address = parse(own_url)
    assert isinstance(address, PostgresAddress)
    connections = pool.Pool(address, 1)
    connections.open()
    used: list[Any] = []

    async def look(connection: Any) -> Any:
        used.append(connection)
        return await connection.fetchval("SELECT 1")

    async def hung_up() -> bool:
        return bool(used[0].is_closed())

    async with hand(own_url) as killer:
        assert await connections.run(look) == 1
        await killer.run(HANG_UP, 1)
        await until(hung_up)
        assert await connections.run(look, patience=0) == 1
        assert used[0] is not used[1]
    await connections.close()


async def test_hints_are_heard_again_after_a_restart(
    own_server: PostgresServer, own_url: str
) -> None:
    async with open_store(own_url) as near, open_store(own_url) as far:
        await asyncio.to_thread(own_server.restart)
        with near.subscribe({"queue:default"}) as subscription:
            assert await subscription.wait(10) == {"*"}  # whatever was missed meanwhile
            await far.start(a_run("r"))
            assert "queue:default" in await subscription.wait(10)
