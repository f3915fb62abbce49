"""A transaction that a user keeps open delays no run on Postgres."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, workflow
from onward.errors import Conflict
from tests.kit.transactions import ASYNC, asyncpg_connection
from tests.kit.watching import check_database

if TYPE_CHECKING:
    from onward import Run
    from tests.kit.transactions import Theirs

POSTGRES = [name for name, (kind, _) in ASYNC.items() if kind == "postgres"]
LONG = 20  # seconds: only a failing test waits that long

word = Signal("word", str)


@workflow
async def listen(count: int) -> list[str]:
    return [await word.wait() for _ in range(count)]


@workflow
async def double(number: int) -> int:
    return 2 * number


async def everything_goes_on(app: App, url: str) -> None:
    """Let others start, signal, wait and commit, and workers claim, to the end of all of it."""
    runs = await asyncio.gather(*(app.start(double, number) for number in range(100)))
    results = await asyncio.gather(*(run.result() for run in runs))
    assert results == [2 * number for number in range(100)]

    await app.signal("busy", word, "one")
    async with asyncpg_connection(url, commit=True) as others:
        await app.within(others.connection).signal("busy", word, "two")
        other = await app.within(others.connection).start(double, 21)
    assert await other.result() == 42
    assert await (await app.get("busy")).result() == ["one", "two"]


@pytest.mark.parametrize("driver", POSTGRES)
async def test_a_transaction_held_open_delays_no_run(driver: str, postgres_url: str) -> None:
    async with App(postgres_url) as app, app.worker(workflows=[listen, double]):
        for name in ("busy", "patient"):
            await app.start(listen.options(id=name), 2 if name == "busy" else 1)
        async with ASYNC[driver][1](postgres_url, commit=True) as theirs:
            held = await hold(app, theirs)
            async with asyncio.timeout(LONG):
                await everything_goes_on(app, postgres_url)
            assert await app._store.sweep() == 0

        assert await held.result(timeout=LONG) == 14
        assert await (await app.get("patient")).result(timeout=LONG) == ["late"]
        await check_database(app)


async def hold(app: App, theirs: Theirs) -> Run[int]:
    """Start a run, signal one that is waiting and one that will end meanwhile; commit nothing."""
    within = app.within(theirs.connection)
    run = await within.start(double.options(id="held"), 7)
    await within.signal("busy", word, "too late, when it comes")
    await within.signal("patient", word, "late")
    return run


async def test_of_two_open_transactions_of_one_id_the_first_commit_decides(
    postgres_url: str,
) -> None:
    async with App(postgres_url) as app:
        async with asyncpg_connection(postgres_url, commit=True) as second:
            async with asyncpg_connection(postgres_url, commit=True) as first:
                run = await app.within(first.connection).start(double.options(id="one"), 1)
                within = app.within(second.connection)
                same = asyncio.ensure_future(within.start(double.options(id="one"), 1))
                await waiting(postgres_url)
            assert (await same).uid == run.uid
            with pytest.raises(Conflict):
                await within.start(double.options(id="one"), 2)
            await within.start(double.options(id="two"), 2)
        assert await app.counts() == {"ready": 2}


async def waiting(url: str) -> None:
    """Wait until a connection waits for a lock."""
    locks = "SELECT pg_sleep(0.002) FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(LONG), asyncpg_connection(url, commit=False) as eyes:
        while not await eyes.connection.fetch(locks):
            pass
