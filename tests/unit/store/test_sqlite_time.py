"""A SQLite store has no clock of its own: what happens when the machine's is set back."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import HOUR, MINUTE, SECOND
from onward.core.lease import LEASE
from onward.store import open_store
from onward.testing.clock import VirtualClock
from onward.testing.conformance.samples import a_run
from onward.testing.conformance.worker import Worker

if TYPE_CHECKING:
    from pathlib import Path

    from onward.store import Store


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(tmp_path: Path, clock: VirtualClock) -> Store:
    return open_store(str(tmp_path / "onward.db"), clock=clock)


async def a_worker(store: Store, name: str) -> Worker:
    await store.take_lease(name, LEASE)
    return Worker(store, name)


async def test_time_never_goes_back(store: Store, clock: VirtualClock) -> None:
    async with store:
        await store.start(a_run("a"))
        before = await store.now()
        clock.set_back(HOUR)

        await store.start(a_run("b"))

        assert await store.now() == before
        assert (await store.run("uid-b")).created_at >= (await store.run("uid-a")).created_at


async def test_no_timer_fires_early(store: Store, clock: VirtualClock) -> None:
    async with store:
        worker = await a_worker(store, "w")
        await store.start(a_run("a")._replace(delay_in=MINUTE))
        clock.set_back(HOUR)
        await store.start(a_run("b")._replace(delay_in=MINUTE))

        clock.advance(MINUTE - 1)
        assert await worker.claim() == []
        clock.advance(HOUR)
        assert await worker.claim() == []
        clock.advance(1)
        assert {run.id for run in await worker.claim()} == {"a", "b"}


async def test_a_callers_timer_is_not_early_either(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    async with store:
        worker = await a_worker(store, "w")
        clock.set_back(HOUR)
        connection = sqlite3.connect(tmp_path / "onward.db")
        await store.within(connection).start(a_run("a")._replace(delay_in=MINUTE))
        connection.commit()
        connection.close()

        assert await worker.claim() == []
        clock.advance(HOUR + MINUTE)
        assert [run.id for run in await worker.claim()] == ["a"]


async def test_no_lease_runs_out(store: Store, clock: VirtualClock) -> None:
    async with store:
        holder, other = await a_worker(store, "holder"), await a_worker(store, "other")
        await holder.owning("a")
        clock.set_back(HOUR)

        for _ in range(10):
            clock.advance(SECOND)
            assert await other.claim() == []

        assert await holder.renew() is not None


async def test_time_does_not_go_back_when_the_file_is_opened_again(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    async with store:
        await store.start(a_run("a")._replace(delay_in=MINUTE))
        clock.advance(SECOND // 2)
        before = await store.now()
    clock.set_back(HOUR)

    async with open_store(str(tmp_path / "onward.db"), clock=clock) as again:
        assert await again.now() == before
        await again.start(a_run("b"))
        assert (await again.run("uid-b")).created_at == before
        worker = await a_worker(again, "w")
        clock.advance(MINUTE)
        assert [run.id for run in await worker.claim()] == ["b"]


async def test_a_clock_that_is_put_forward_only_makes_things_due(
    store: Store, clock: VirtualClock
) -> None:
    async with store:
        worker = await a_worker(store, "w")
        await store.start(a_run("a")._replace(delay_in=MINUTE))

        clock.jump(HOUR)

        assert [run.id for run in await worker.claim()] == ["a"]
        assert await worker.renew() == clock.wall() + LEASE
