"""A history has a limit: a run that comes near is logged, and one that would exceed it fails."""

from __future__ import annotations

import asyncio
import logging

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import RunFailed
from onward.runtime.body import history_limit
from tests.kit.watching import until_state, working

MOST = 30
WARN = 10

go = Signal("go")


@pytest.fixture(autouse=True)
def _short_histories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_limit, "MAX_RECORDS", MOST)
    monkeypatch.setattr(history_limit, "RECORDS_WARN", WARN)


@step
async def same(n: int) -> int:
    return n


@workflow
async def one_by_one(count: int) -> int:
    return sum([await same(1) for _ in range(count)])


@workflow
async def all_at_once(count: int) -> int:
    return sum(await asyncio.gather(*(same(1) for _ in range(count))))


@workflow
async def sleeps_on(count: int) -> int:
    for _ in range(count):
        await asyncio.sleep(0.001)
    return count


@pytest.mark.parametrize("way", [one_by_one, all_at_once, sleeps_on], ids=lambda way: way.name)
async def test_a_history_can_be_so_long_and_no_longer(
    app: App, way: onward.Workflow[[int], int]
) -> None:
    async with working(app, workflows=[way]):
        assert await app.run(way, MOST) == MOST
        run = await app.start(way, MOST + 1)
        with pytest.raises(RunFailed, match=r"has 30 records.* map .*continue_as_new"):
            await run.result(timeout="60s")
        assert len([row for row in await run.history() if row.seq is not None]) <= MOST


@workflow
async def waits_at_the_end() -> int:
    total = sum([await same(1) for _ in range(MOST - 1)])
    await go.wait()
    return total + await same(1)


async def test_the_bound_is_the_same_after_a_replay(app: App) -> None:
    async with app:
        run = await app.start(waits_at_the_end)
        async with app.worker(workflows=[waits_at_the_end]):
            await until_state(run, "waiting")
        async with app.worker(workflows=[waits_at_the_end]):
            await run.signal(go)
            with pytest.raises(RunFailed, match="has 30 records"):
                await run.result(timeout="60s")


async def test_a_history_that_becomes_long_is_logged_once(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "onward.run")
    async with working(app, workflows=[one_by_one]):
        await app.run(one_by_one, WARN)
        assert caplog.records == []
        run = await app.start(one_by_one, MOST)
        await run.result(timeout="60s")
    [told] = caplog.records
    assert told.name == "onward.run"
    assert (told.event, told.run) == ("run.long", run.id)  # type: ignore[attr-defined] # facts


@workflow
async def in_parts(left: int) -> int:
    await one_by_one(WARN // 2)
    return left if left < WARN else onward.continue_as_new(left - WARN // 2)


@workflow
async def in_chunks(count: int) -> int:
    return sum(await same.map(range(count), limit=50))


async def test_a_map_and_a_run_that_goes_on_as_a_new_one_stay_short(app: App) -> None:
    async with working(app, workflows=[in_parts, in_chunks, one_by_one]):
        assert await app.run(in_parts, 3 * MOST) == WARN // 2
        assert await app.run(in_chunks, 3 * MOST) == sum(range(3 * MOST))
