"""Schedules in a simulated world: they are created, left to the workers, and paused at the end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE
from onward.engine.schedules.local import LocalSchedules
from onward.errors import StoreUnusable, Unavailable
from onward.sdk.schedule import Schedule
from onward.sdk.step import step
from onward.sdk.workflow import workflow
from tests.simulation.simulator.draw import Draw
from tests.simulation.simulator.plan import TROUBLE_SECONDS
from tests.simulation.simulator.sample_workflows import outside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from onward.model.schedules import ScheduleSpec
    from onward.store.store import Store
    from tests.simulation.simulator.plan import Plan
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.witness import Witness

AGAIN_SECONDS = 0.5
QUIET_SECONDS = 20.0
"""For how long schedules go on when the trouble is over."""


@step(name="simulated chime")
async def chime() -> None:
    """Do something for a moment, which may last until after the next slot."""
    outside().begin()
    await asyncio.sleep(outside().draw.upto(10))


@workflow(name="simulated tick")
async def tick() -> None:
    """Take one step. A timer would wait for long when the clock was ahead for a moment."""
    await chime()


CHILDREN = (tick,)
STEPS = (chime,)


def _spec(name: str, every: str, **given: Any) -> ScheduleSpec:
    return Schedule(name, tick, every=every, max_catch_up=5, **given).spec


SCHEDULES: dict[str, ScheduleSpec] = {
    spec.name: spec
    for spec in (
        _spec("all", "9s", overlap="allow", catch_up="all"),
        _spec("latest", "7s", overlap="allow", catch_up="latest"),
        _spec("skip", "11s", overlap="allow", catch_up="skip"),
        _spec("one at a time", "5s", overlap="skip", catch_up="latest"),
        _spec("coalesced", "6s", overlap="coalesce", catch_up="latest"),
        _spec("replaced", "8s", overlap="replace", catch_up="all"),
    )
}
"""What schedules there may be, by name."""

assert max(spec.every or 0 for spec in SCHEDULES.values()) < MINUTE


def draw_schedules(seed: int, plan: Plan) -> Plan:
    """Return a plan that may have schedules; what else it has stays."""
    draw = Draw(seed, "schedules")
    if not draw.happens(0.1):
        return plan
    names = {draw.one_of(tuple(SCHEDULES)) for _ in range(2)}
    return replace(plan, schedules=tuple(sorted(names)))


class Timetable:
    """Creates schedules, and pauses them when the trouble has long been over."""

    def __init__(self, process: Process, store: Store, witness: Witness) -> None:
        self._process = process
        self._store = store
        self._witness = witness

    async def live(self, names: Sequence[str]) -> None:
        """Let schedules start runs for as long as there is trouble, and for a while after it."""
        async with self._store:
            schedules = LocalSchedules(self._store)
            for name in names:
                await self._insist(lambda name=name: schedules.create(SCHEDULES[name]))  # type: ignore[misc]
                self._witness.tell(self._process, "schedule", name)
            await asyncio.sleep(TROUBLE_SECONDS + QUIET_SECONDS)
            for name in names:
                await self._insist(lambda name=name: schedules.pause(name))  # type: ignore[misc]

    async def _insist(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await ask()
            except (Unavailable, StoreUnusable):
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return
