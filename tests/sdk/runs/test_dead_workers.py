"""A run whose worker is gone says so wherever its state is looked at."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, workflow
from onward.sdk import stuck
from onward.store import Wanted
from tests.kit.watching import until
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from onward import Run

GONE = r"its worker w-gone has not renewed its lease since 2\d{3}-\d\d-\d\d \d\d:\d\d:\d\dZ"
NOBODY = f"{GONE}, and no worker serves queue 'default'"
START = "Start a worker: onward worker MODULE"


@workflow
async def orders() -> None: ...


async def abandoned(app: App) -> Run[Any]:
    """Return a run of a worker that has died: its lease is over, and no worker has deleted it."""
    run = await app.start(orders.options(id="order-1"))
    await app._store.take_lease("w-gone", 1)
    wanted = Wanted("w-gone", ("default",), (orders.name,), 1)
    await app._store.claim(wanted)
    assert await run.state() == "running"
    return run


async def test_a_run_of_a_dead_worker_is_blocked_if_no_live_worker_takes_it(app: App) -> None:
    async with app:
        await abandoned(app)

        [blocker] = await app.why("order-1")

        assert re.fullmatch(NOBODY, blocker.text)
        assert (blocker.kind, blocker.next) == ("worker", START)


async def test_a_run_of_a_dead_worker_is_unserved_if_no_live_worker_takes_it(app: App) -> None:
    async with app:
        await abandoned(app)

        [unserved] = await app.unserved()

        assert unserved.run.id == "order-1"
        assert re.fullmatch(NOBODY, unserved.why)


async def test_a_live_worker_will_continue_a_run_of_a_dead_one(app: App) -> None:
    async with app:
        await abandoned(app)
        async with app.worker(workflows=[orders]):
            [blocker] = await app.why("order-1")

            assert blocker.kind == "takeover"
            assert re.fullmatch(f"{GONE}; another worker will continue the run", blocker.text)
            assert await app.unserved() == []


async def test_a_lease_that_was_deleted_is_reported_as_lost(app: App) -> None:
    async with app:
        await abandoned(app)
        await app._store.drop_lease("w-gone")

        [blocker] = await app.why("order-1")

        assert blocker.text == (
            "its worker w-gone has lost its lease, and no worker serves queue 'default'"
        )


async def test_a_run_of_a_live_worker_has_no_blocker(app: App) -> None:
    async with app:
        await abandoned(app)
        await app._store.renew_lease("w-gone", 60_000_000)

        assert await app.why("order-1") == []
        assert await app.unserved() == []


async def test_a_timeout_says_that_the_worker_is_gone(memory: App) -> None:
    async with memory:
        run = await abandoned(memory)

        with pytest.raises(TimeoutError) as late:
            await run.result(timeout="10ms")

    said = f"run order-1 has not ended within 10ms: its state is running; {NOBODY}. Next: {START}"
    assert re.fullmatch(said, str(late.value))


async def test_the_log_says_why_a_caller_waits(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "STUCK_SECONDS", 0.01)
    with a_log(logging.WARNING) as log:
        async with memory:
            waiting = asyncio.ensure_future((await abandoned(memory)).result())
            await until(lambda: bool(log.lines))
            waiting.cancel()

    [line] = log.lines
    start = "run.stuck: run=order-1 workflow=orders state=running waited_seconds=0.01 why="
    assert line.startswith(start)
    assert re.search(f'{NOBODY}" next="{START}"', line)


async def test_the_worker_that_takes_over_runs_logs_whose_they_were(app: App) -> None:
    with a_log(logging.WARNING) as log:
        async with app:
            run = await abandoned(app)
            await app._store.drop_lease("w-gone")
            async with app.worker(workflows=[orders]) as worker:
                await run.result(timeout="60s")

    [line] = log.lines
    assert line.startswith(f"worker.dead: worker=w-gone runs=1 continued_by={worker.id} hint=")
