"""A database that is away, or refuses everybody, for less and more than a lease: nobody dies of it.

Nothing is done again, no crash is counted, no worker ends, and work continues when it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from onward import App, step, workflow
from onward.core.instant import SECOND
from onward.errors import Unavailable
from onward.runtime.worker.options import Options
from onward.store import open_store
from onward.testing.proxy import LossyProxy
from tests.e2e.engine.hands import working
from tests.postgres.hand import STATEMENTS, hand, until
from tests.postgres.pooler import Pooler
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from onward import Run
    from onward.runtime.worker.worker import Worker
    from onward.testing.postgres import PostgresServer

LEASE_SECONDS = 1.5
OPTIONS = Options(lease=int(LEASE_SECONDS * SECOND), slots=50)
BACK_SECONDS = 5.0
"""How soon after the return of the database work continues at the latest."""

KILL_ALL = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE usename = 'rotated' AND pid <> pg_backend_pid()"""
CLAIMS = "SELECT uid, fence, crashes FROM onward.onward_run ORDER BY uid"

done: Counter[tuple[str, int]] = Counter()
is_held: list[bool] = []


@step
async def beat(run: str, n: int) -> int:
    done[run, n] += 1
    await asyncio.sleep(0.05)
    while is_held:  # noqa: ASYNC110 - a test lets it go
        await asyncio.sleep(0.01)
    return n


@workflow
async def beats(name: str, count: int) -> int:
    for n in range(count):
        await beat(name, n)
    return count


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    done.clear()
    is_held.clear()


@asynccontextmanager
async def crew(*urls: str) -> AsyncIterator[list[Worker]]:
    """Let a worker work on each of these."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(working(url, OPTIONS)) for url in urls]


async def started(app: App, count: int = 12, beats_each: int = 12) -> list[Run[int]]:
    """Start runs, and wait until all of them are at work."""
    runs = [await app.start(beats, f"r{n}", beats_each) for n in range(count)]

    async def is_each_at_work() -> bool:
        return len({name for name, _ in done}) == count

    await until(is_each_at_work)  # a claim that an outage leaves without an answer is made again
    return runs


async def until_done(count: int) -> None:
    async def is_done() -> bool:
        return len(done) >= count

    await until(is_done)


async def continued(app_url: str, runs: list[Run[int]], ids: list[str], crew: list[Worker]) -> None:
    """Check that work continues at once, and that nobody noticed but by the time it took."""
    before = sum(done.values())
    async with asyncio.timeout(BACK_SECONDS):
        await until_done(before + 1)
    for run in runs:
        assert await run.result(timeout=20) == 12
    assert set(done.values()) == {1}, "a step was done again"
    async with hand(app_url) as eyes:
        assert {row[1:] for row in await eyes.run(CLAIMS)} == {(1, 0)}, "a run was claimed again"
    assert [worker.id for worker in crew] == ids, "a worker was replaced"


@asynccontextmanager
async def down(server: PostgresServer) -> AsyncIterator[None]:
    """Stop a server while the block runs, from a thread.

    While the event loop stood still, stopping took a minute: probably a client that was connecting
    kept the server waiting until its time to log in was over.
    """
    stopped = server.down()
    await asyncio.to_thread(stopped.__enter__)
    try:
        yield
    finally:
        await asyncio.to_thread(stopped.__exit__, None, None, None)


@pytest.mark.parametrize("leases", [0.6, 1.2, 3.0])
async def test_an_outage_loses_no_run(
    own_server: PostgresServer, own_url: str, leases: float
) -> None:
    async with App(own_url) as app, crew(*[own_url] * 4) as workers:
        ids = [worker.id for worker in workers]
        runs = await started(app)
        async with down(own_server):
            await asyncio.sleep(leases * LEASE_SECONDS)
        await continued(own_url, runs, ids, workers)


async def test_a_login_refused_for_a_while_loses_no_run(
    own_server: PostgresServer, own_url: str
) -> None:
    async with hand(own_url) as admin:
        await admin.run("CREATE ROLE rotated LOGIN SUPERUSER")
        rotated = own_url.replace("postgres@", "rotated@")
        async with App(rotated) as app, crew(*[rotated] * 4) as workers:
            ids = [worker.id for worker in workers]
            runs = await started(app)
            waiting = asyncio.ensure_future(runs[0].result())
            await admin.run("ALTER ROLE rotated NOLOGIN")
            await admin.run(KILL_ALL)
            with pytest.raises(Unavailable, match="refused this user, though it worked before"):
                await app.counts()
            await asyncio.sleep(2 * LEASE_SECONDS)
            await admin.run("ALTER ROLE rotated LOGIN")
            await continued(own_url, runs, ids, workers)
            assert await waiting == 12
        await admin.run("REASSIGN OWNED BY rotated TO postgres")
        await admin.run("DROP ROLE rotated")


async def refused(app: App) -> Unavailable:
    """Return the error of a call that the pooler refuses; on a busy machine, some time out."""
    while True:
        with pytest.raises(Unavailable) as told:
            await app.counts()
        if "refused the connection (08P01" in str(told.value):
            return told.value


async def test_a_pooler_full_for_a_while_loses_no_run(empty_url: str) -> None:
    async with Pooler(empty_url) as pooler:
        url = f"{pooler.url}?pgbouncer=true"
        async with App(url) as app, crew(*[url] * 4) as workers:
            ids = [worker.id for worker in workers]
            runs = await started(app)
            pooler.be_full()
            refusal = await refused(app)
            assert "pgbouncer=true" not in refusal.advice
            await asyncio.sleep(2 * LEASE_SECONDS)
            pooler.have_room()
            await continued(empty_url, runs, ids, workers)


async def test_clients_are_told_of_an_outage_within_two_seconds(
    own_server: PostgresServer, own_url: str
) -> None:
    async with App(own_url) as app:
        run = await app.start(beats, "r", 1)
        async with down(own_server):
            began = time.monotonic()
            calls = [app.counts(), run.state(), run.cancel(), app.start(beats, "s", 1)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert time.monotonic() - began < 3.0
        assert {type(answer) for answer in answers} == {Unavailable}
        assert all("cannot be reached" in str(answer) for answer in answers)
        assert await run.state() == "ready"


async def test_a_run_whose_claim_was_not_answered_begins_within_seconds(postgres_url: str) -> None:
    async with LossyProxy(postgres_url) as proxy, App(postgres_url) as app:
        run = await app.start(beats, "r", 1)
        fault = proxy.drop_reply_after_commit(STATEMENTS["claim"].sql.encode())
        async with crew(proxy.url):
            assert await run.result(timeout=BACK_SECONDS) == 1
        assert fault.happened.is_set()
        async with hand(postgres_url) as eyes:
            assert await eyes.run(CLAIMS) == [(run.uid, 3, 0)]


async def test_a_worker_that_alone_was_cut_off_continues_under_another_id(
    postgres_url: str,
) -> None:
    with a_log() as log:
        async with (
            LossyProxy(postgres_url) as proxy,
            App(postgres_url) as app,
            crew(proxy.url) as [cut_off],
        ):
            first = cut_off.id
            is_held.append(True)
            runs = await started(app, count=3, beats_each=2)
            proxy.freeze()
            async with crew(postgres_url):
                await until_done(3)
                async with hand(postgres_url) as eyes:

                    async def are_adopted() -> bool:
                        return {row[1:] for row in await eyes.run(CLAIMS)} == {(2, 1)}

                    await until(are_adopted)
                    proxy.thaw()

                    async def are_forgiven() -> bool:
                        return {row[1:] for row in await eyes.run(CLAIMS)} == {(2, 0)}

                    await until(are_forgiven)
                is_held.clear()
                for run in runs:
                    assert await run.result(timeout=20) == 2
            assert cut_off.id != first
            assert await app.run(beats, "after", 1) == 1
        assert "worker.replaced" in log.events


async def test_a_lease_that_was_deleted_is_replaced_and_runs_are_given_back_without_a_crash(
    postgres_url: str,
) -> None:
    url = postgres_url
    async with open_store(url) as store, App(url) as app, crew(url) as [worker]:
        first = worker.id
        is_held.append(True)
        [run] = await started(app, count=1, beats_each=2)
        await store.drop_lease(first)

        async def is_done_again() -> bool:
            return done["r0", 0] == 2

        await until(is_done_again)
        assert worker.id != first
        row = await store.run(run.uid)
        assert (row.worker, row.crashes) == (worker.id, 0)
        is_held.clear()
        assert await run.result(timeout=20) == 2
