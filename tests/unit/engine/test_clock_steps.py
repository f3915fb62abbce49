"""`ClockSteps`: what a worker sees and records when the database's clock is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.clock_steps import SeenStep
from onward.core.instant import DAY
from onward.engine.clock_steps import ClockSteps
from onward.store.opening import open_store
from onward.store.runs.clock_steps import record_step, steps_in_force
from onward.testing.clock import VirtualClock

if TYPE_CHECKING:
    import pytest

    from onward.store.store import Store


async def learnt(store: Store, steps: ClockSteps, clock: VirtualClock) -> None:
    due = await store.maintenance_due()
    await steps.learn(due.at, clock.monotonic(), due.latest_step)


async def test_a_step_that_another_worker_records_during_a_join_is_recorded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        for worker in ("joining", "other"):
            await store.take_lease(worker, DAY)
        steps = ClockSteps(store, clock, "joining", lambda: None)
        read = store.read

        async def read_and_stand_still(work: Any) -> Any:
            answer = await read(work)
            monkeypatch.undo()
            before = clock.wall()
            clock.jump(DAY)
            seen = SeenStep(before, clock.wall(), DAY)
            await store.write(lambda tx: record_step(tx, "other", 0, seen))
            return answer

        monkeypatch.setattr(store, "read", read_and_stand_still)
        await steps.join()
        await learnt(store, steps, clock)

        assert [step.step for step in await store.read(steps_in_force)] == [DAY]


async def test_a_step_before_a_join_that_is_recorded_after_it_shortens_no_wait_later() -> None:
    clock = VirtualClock()
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        for worker in ("joining", "other"):
            await store.take_lease(worker, 3 * DAY)
        before = clock.wall()
        clock.jump(DAY)
        steps = ClockSteps(store, clock, "joining", lambda: None)
        await steps.join()

        async def recorded_by_the_other(known: int) -> None:
            seen = SeenStep(before, clock.wall(), DAY)
            await store.write(lambda tx: record_step(tx, "other", known, seen))

        await recorded_by_the_other(0)
        await learnt(store, steps, clock)
        before = clock.wall()
        clock.jump(DAY)
        await recorded_by_the_other(1)
        await learnt(store, steps, clock)

        assert [step.step for step in await store.read(steps_in_force)] == [DAY, DAY]
