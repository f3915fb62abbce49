"""While its event loop is blocked, a worker releases the runs that do not block it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import LEASE, STALLS_QUIET
from onward.engine.store_renewer import StoreRenewer
from onward.runtime.execution.loop_monitor import LoopMonitor
from onward.runtime.worker.loop_watch import RUNS, BlockedLoopWatch, Stall
from onward.runtime.worker.options import Options
from onward.runtime.worker.stall_guard import RELEASE_EVERY, StallGuard
from onward.store import open_store
from onward.telemetry.observer import SILENT
from onward.telemetry.scope import RunScope, StepScope
from onward.testing.clock import VirtualClock
from tests.conformance.suite.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from onward.core.instant import Duration
    from onward.model.runs import ClaimedRun
    from onward.telemetry.scope import Scope

STALL = SECOND
LIMIT = 100 * SECOND


class Scene:
    """A worker with some runs, another worker, and a guard that looks when it is told to."""

    id = "blocked"
    observer = SILENT

    def __init__(self, worker: Worker, clock: VirtualClock) -> None:
        self.worker, self.clock = worker, clock
        loop = asyncio.get_running_loop()
        self.watch = BlockedLoopWatch(LoopMonitor(), clock, SILENT, loop)
        options = Options(stall=STALL, stall_limit=LIMIT)
        self.guard = StallGuard(self, self.watch, options, clock)
        self.renewer = StoreRenewer(worker.store, self.id)
        self.effects: set[str] = set()
        self.released: list[str] = []
        self.stuck: list[Stall] = []

    def sending(self) -> set[str]:
        return self.effects

    def on_released(self, runs: Mapping[str, int]) -> None:
        self.released += sorted(runs)

    def on_stuck(self, stall: Stall) -> None:
        self.stuck.append(stall)

    async def block(self, length: Duration, scope: Scope | None) -> list[str]:
        """Let the loop have been blocked for so long, and return what the worker releases."""
        self.released.clear()
        self.watch.stall = Stall(length, scope, "shop.py:7 in order")
        self.clock.advance(RELEASE_EVERY)
        await self.worker.store.renew_lease("other")
        await self.guard.look(self.renewer)
        return list(self.released)

    async def run_again(self, length: Duration = 0) -> None:
        """Let the loop run, for so long."""
        self.watch.stall = RUNS
        await self.guard.look(self.renewer)
        self.clock.advance(length)
        await self.guard.look(self.renewer)


@asynccontextmanager
async def blocked(*runs: str) -> AsyncIterator[tuple[Scene, list[ClaimedRun]]]:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        await store.take_lease("blocked", LEASE)
        await store.take_lease("other", LEASE)
        worker = Worker(store, "blocked")
        yield Scene(worker, clock), await worker.owning(*runs)


def scope_of(run: ClaimedRun) -> RunScope:
    return RunScope(run.id, run.uid, run.name)


async def test_the_run_whose_step_blocks_is_kept() -> None:
    async with blocked("a", "b") as (scene, [a, b]):
        step = StepScope(scope_of(a), "charge", "charge#1", 1)

        assert await scene.block(STALL - 1, step) == []
        assert await scene.block(STALL, step) == [b.uid]


async def test_all_runs_are_released_if_other_code_blocks() -> None:
    async with blocked("a", "b") as (scene, runs):
        assert await scene.block(STALL, None) == [run.uid for run in runs]


async def test_a_run_that_blocked_before_in_the_same_stall_is_kept() -> None:
    async with blocked("a", "b") as (scene, [a, b]):
        assert await scene.block(STALL, scope_of(a)) == [b.uid]

        for length in (STALL + 1, 2 * STALL, 3 * STALL):
            assert await scene.block(length, scope_of(b)) == []

        assert (await scene.worker.store.run(a.uid)).fence == a.fence


async def test_a_run_that_sends_an_effect_is_kept_until_the_loop_is_stuck() -> None:
    async with blocked("a", "b") as (scene, [a, b]):
        scene.effects.add(b.uid)

        assert await scene.block(STALL, scope_of(a)) == []
        assert await scene.block(LIMIT, scope_of(a)) == [b.uid]


async def test_a_worker_that_is_blocked_again_waits_longer_before_it_releases_runs() -> None:
    async with blocked("a", "b") as (scene, [a, _]):
        await scene.block(STALL, scope_of(a))
        await scene.run_again()
        [again] = await scene.worker.claim()

        assert await scene.block(2 * STALL - 1, scope_of(a)) == []
        assert await scene.block(2 * STALL, scope_of(a)) == [again.uid]


async def test_a_worker_that_was_not_blocked_for_long_waits_no_longer_than_at_first() -> None:
    async with blocked("a", "b") as (scene, [a, _]):
        await scene.block(STALL, scope_of(a))
        await scene.run_again(STALLS_QUIET * STALL)
        [again] = await scene.worker.claim()

        assert await scene.block(STALL, scope_of(a)) == [again.uid]


async def test_a_run_that_blocks_for_too_long_is_given_up_once() -> None:
    async with blocked("a") as (scene, [a]):
        for length in (LIMIT - 1, LIMIT, LIMIT + 1):
            await scene.block(length, scope_of(a))

        assert [stall.length for stall in scene.stuck] == [LIMIT]
        assert scene.guard.given_up == a.uid
        assert b"shop.py:7" in ((await scene.worker.store.end(a.uid)).error or b"")
