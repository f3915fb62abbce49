"""A SQLite store has no clock of its own: what happens when the machine's is set back."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.core.lease import LEASE
from onward.store import open_store
from onward.testing.clock import VirtualClock
from tests.conformance.suite.samples import a_run
from tests.conformance.suite.worker import Worker

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

        clock.advance(2 * MINUTE - 1)  # time goes on at half speed meanwhile
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


# --- a clock that was ahead for a moment ----------------------------------------------------------


async def glitch(store: Store, clock: VirtualClock) -> None:
    """Let the clock be a day ahead while something is written."""
    clock.jump(DAY)
    await store.start(a_run("meanwhile"))
    clock.set_back(DAY)


async def test_a_clock_that_was_ahead_for_a_moment_freezes_nothing(
    store: Store, clock: VirtualClock
) -> None:
    async with store:
        worker = await a_worker(store, "w")
        await glitch(store, clock)
        await store.start(a_run("a")._replace(delay_in=SECOND))
        await worker.claim()

        clock.advance(2 * SECOND)

        assert [run.id for run in await worker.claim()] == ["a"]


async def test_a_reset_sets_the_time_to_the_machines_clock(
    store: Store, clock: VirtualClock
) -> None:
    async with store:
        await glitch(store, clock)
        assert await store.now() == clock.wall() + DAY

        assert await store.reset_clock() == DAY

        assert await store.now() == clock.wall()
        await store.start(a_run("a"))
        assert (await store.run("uid-a")).created_at == clock.wall()
        assert await store.reset_clock() == 0


async def test_a_reset_outlives_the_process(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    async with store:
        await glitch(store, clock)
        await store.reset_clock()

    async with open_store(str(tmp_path / "onward.db"), clock=clock) as again:
        assert await again.now() == clock.wall()


async def test_after_a_reset_each_lease_lasts_as_long_as_it_would_have(
    store: Store, clock: VirtualClock
) -> None:
    async with store:
        holder = await a_worker(store, "holder")
        clock.jump(DAY)
        await holder.renew()
        clock.set_back(DAY)

        await store.reset_clock()

        rows = await store.read(lambda tx: tx.fetch("lease_here", worker=holder.name))
        assert rows[0][0] == await store.now() + LEASE


async def test_a_process_that_does_not_know_of_a_reset_does_not_undo_it(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    async with store:
        await glitch(store, clock)
        stranger = sqlite3.connect(tmp_path / "onward.db")  # stands for the other process
        stranger.execute(
            "UPDATE onward_meta SET value = CASE name WHEN 'time' THEN ? ELSE value + 1 END"
            " WHERE name IN ('time', 'time_resets')",
            (clock.wall(),),
        )
        stranger.commit()
        stranger.close()

        assert await store.now() == clock.wall()
        await store.start(a_run("a"))
        assert (await store.run("uid-a")).created_at == clock.wall()


async def test_a_clock_that_is_put_forward_only_makes_things_due(
    store: Store, clock: VirtualClock
) -> None:
    async with store:
        worker = await a_worker(store, "w")
        await store.start(a_run("a")._replace(delay_in=MINUTE))

        clock.jump(HOUR)

        assert [run.id for run in await worker.claim()] == ["a"]
        assert await worker.renew() == clock.wall() + LEASE
