"""A worker that fails ends the body of `async with` and says why, instead of leaving it to hang."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from onward import App
from onward.core.instant import HOUR, SECOND
from onward.core.lease import LEASE
from onward.runtime.worker.options import Options
from onward.store import open_store
from onward.telemetry.failpoints import InjectedFault
from onward.testing.clock import VirtualClock
from onward.testing.faults import armed, raising
from tests.e2e.engine.hands import working
from tests.e2e.engine.shapes import sequence
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.sweep import until
from tests.postgres.hand import hand
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from onward.runtime.worker.worker import Worker
    from onward.store import Store
    from onward.testing.postgres import PostgresServer

SHORT = Options(lease=SECOND)
BROKEN = raising(InjectedFault("broken"))


async def stay(
    work: AbstractAsyncContextManager[Worker], begin: Callable[[Worker], object] = id
) -> None:
    """Wait, in the body of a worker, for something that only the worker's failure can end."""
    async with asyncio.timeout(PATIENCE_SECONDS), work as worker:
        begin(worker)
        await asyncio.Event().wait()


async def test_an_error_in_the_loop_of_a_worker_ends_the_body_with_it(url: str) -> None:
    with armed("claim.before", BROKEN), pytest.raises(InjectedFault, match="broken"):
        await stay(App(url).worker())


async def test_an_error_while_renewing_ends_the_body_with_it(url: str) -> None:
    with armed("renew.before", BROKEN), pytest.raises(InjectedFault, match="broken"):
        await stay(working(url, SHORT))


async def test_a_worker_that_fails_before_it_is_ready_raises_at_the_door(url: str) -> None:
    async with App(url) as app:
        with armed("commit.before", BROKEN), pytest.raises(InjectedFault, match="broken"):
            await stay(app.worker(), lambda _: pytest.fail("it came up"))


async def test_a_database_that_was_dropped_is_waited_for_and_used_when_it_is_back(
    postgres_server: PostgresServer, log: Path
) -> None:
    url = postgres_server.create_database()
    with a_log() as told:
        async with App(url) as app, app.worker() as worker:
            first = worker.id
            postgres_server.drop_database(url)
            await until(lambda: "store.away" in told.events)
            name = urlsplit(url).path.removeprefix("/")
            async with hand(postgres_server.url("postgres")) as operator:
                await operator.run(f'CREATE DATABASE "{name}"')
            async with open_store(url):
                pass  # makes the tables again

            await until(lambda: "worker.replaced" in told.events)
            assert worker.id != first
            assert await (await app.start(sequence, 1)).result(timeout=PATIENCE_SECONDS) == 32
    postgres_server.drop_database(url)


async def test_a_damaged_file_is_waited_for_and_the_worker_can_be_stopped(tmp_path: Path) -> None:
    file = tmp_path / "onward.db"
    with a_log() as told:
        async with asyncio.timeout(PATIENCE_SECONDS), App(str(file)).worker():
            for part in (file, tmp_path / "onward.db-wal"):
                part.write_bytes(b"\xff" * 65536)
            await until(lambda: "store.away" in told.events)


async def test_an_error_of_the_body_comes_out_as_itself_with_its_cause(url: str) -> None:
    mine = KeyError("mine")
    mine.__cause__ = ValueError("the cause")

    with pytest.raises(KeyError) as raised:
        await stay(App(url).worker(), lambda _: raising(mine)())

    assert raised.value is mine
    assert isinstance(mine.__cause__, ValueError)


async def test_a_worker_whose_machine_was_asleep_renews_its_lease_again(tmp_path: Path) -> None:
    clock = VirtualClock()
    url = str(tmp_path / "onward.db")
    async with open_store(url, clock=clock) as store, App(url, clock=clock).worker() as worker:
        clock.advance(HOUR)

        async with asyncio.timeout(PATIENCE_SECONDS):
            while await lease_of(store, worker) < clock.wall():
                clock.advance(LEASE // 3)
                await asyncio.sleep(0.3)


async def lease_of(store: Store, worker: Worker) -> int:
    rows = await store.read(lambda tx: tx.fetch("lease_here", worker=worker.id))
    return int(rows[0][0])


async def test_a_run_survives_the_failure_of_its_worker(url: str, log: Path) -> None:
    async with App(url) as app:
        run = await app.start(sequence, 1)
        with armed("claim.after", BROKEN), pytest.raises(InjectedFault):
            await stay(app.worker())

        async with app.worker():
            assert await run.result(timeout=PATIENCE_SECONDS) == 32
