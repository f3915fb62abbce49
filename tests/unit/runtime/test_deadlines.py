"""Time limits: short ones to the point, long ones within a second, forgotten ones never."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import SECOND
from onward.runtime.attempts.deadlines import Deadlines
from onward.testing.clock import VirtualClock, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable


class Limited:
    """Something with a time limit."""

    def __init__(self, expire: Callable[[], None]) -> None:
        self.expire = expire


@pytest.mark.parametrize(("seconds", "late"), [(0.5, 0.0), (9.0, 0.0), (10.0, 1.0), (600.0, 1.0)])
def test_a_limit_is_told_of_when_it_has_passed(seconds: float, late: float) -> None:
    clock = VirtualClock()
    began = clock.wall()
    told: list[float] = []

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(loop, copy_context())
        limited = Limited(lambda: told.append((clock.wall() - began) / SECOND))
        deadlines.watch(limited, seconds, loop.time())
        await asyncio.sleep(seconds + 5)
        deadlines.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(watch())

    [at] = told
    assert seconds <= at <= seconds + late + 0.001


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_what_is_forgotten_in_time_is_not_told_of(seconds: float) -> None:
    told: list[str] = []

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        deadlines = Deadlines(loop, copy_context())
        it, other = Limited(lambda: told.append("it")), Limited(lambda: told.append("other"))
        deadlines.watch(it, seconds, loop.time())
        deadlines.watch(other, seconds, loop.time())
        await asyncio.sleep(seconds / 2)
        deadlines.forget(it)
        await asyncio.sleep(seconds * 2)
        deadlines.close()

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(VirtualClock())) as runner:
        runner.run(watch())

    assert told == ["other"]
