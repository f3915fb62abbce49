"""A run that leaves its worker and is back before the worker has heard of that."""

from __future__ import annotations

import asyncio

from onward import App, Signal, step, workflow
from onward.core.lease import AUDIT_EVERY, GONE_WORKERS_KEPT
from onward.runtime.execution.host import End
from onward.testing.clock import VirtualClock, VirtualLoop
from tests.kit.watching import until, until_state, working

call_back = Signal("call back", str)
gates: list[asyncio.Event] = []


@step
async def goes_through_a_gate() -> None:
    gates.append(asyncio.Event())
    await gates[-1].wait()


@workflow
async def comes_and_goes() -> str:
    await call_back.wait()
    await goes_through_a_gate()
    return await call_back.wait()


async def test_old_news_of_a_run_do_not_take_it_from_the_worker_that_has_it_again(app: App) -> None:
    gates.clear()
    async with working(app) as worker:
        run = await app.start(comes_and_goes)
        await until_state(run, "waiting")

        async def is_warm() -> bool:
            return run.uid in worker._cache._kept

        await until(is_warm)
        old = worker._cache._kept.pop(run.uid)  # so it does not come back from there
        await run.signal(call_back, "a")

        async def is_at_the_gate() -> bool:
            return bool(gates)

        await until(is_at_the_gate)
        new = worker.running[run.uid]
        assert new is not old

        worker.ended(old, End.PARKED)

        assert worker.running[run.uid] is new
        assert run.uid not in worker._cache._kept
        assert old.is_gone
        gates[0].set()
        await run.signal(call_back, "b")
        assert await run.result(timeout="60s") == "b"


async def test_a_body_that_another_takes_the_place_of_is_unwound(app: App) -> None:
    gates.clear()
    async with working(app) as worker:
        run = await app.start(comes_and_goes)
        await until_state(run, "waiting")

        async def is_warm() -> bool:
            return run.uid in worker._cache._kept

        await until(is_warm)
        old = worker._cache._kept.pop(run.uid)
        await run.signal(call_back, "a")

        async def is_at_the_gate() -> bool:
            return bool(gates)

        await until(is_at_the_gate)
        worker._cache.keep(old)  # the news that it had parked come only now
        gates[0].set()

        async def is_unwound() -> bool:
            return old.is_gone

        await until(is_unwound)
        await run.signal(call_back, "b")
        assert await run.result(timeout="60s") == "b"


def test_a_worker_removes_the_rows_of_workers_that_left_long_ago() -> None:
    clock = VirtualClock()

    async def work() -> int:
        async with App(":memory:", clock=clock, spawn=None) as app:
            async with app.worker():
                pass
            clock.advance(GONE_WORKERS_KEPT + 1)
            async with app.worker(workflows=[comes_and_goes]):
                clock.advance(AUDIT_EVERY)
                run = await app.start(comes_and_goes)
                await until_state(run, "waiting")
            removed: int = await app._store.remove_workers()
            return removed

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        assert runner.run(work()) == 0, "there is none left to remove"
