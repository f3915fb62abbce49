"""Plays scenes with an app in virtual time, on a clock that the scene may set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from onward import App
from onward.testing.clock import VirtualClock, VirtualLoop
from tests.kit.watching import check_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


def in_virtual_time(scene: Callable[[App, VirtualClock], Awaitable[T]]) -> T:
    """Return the result of a scene; afterwards everything in the database must fit together."""
    clock = VirtualClock()

    async def play() -> T:
        async with App(":memory:", clock=clock, spawn=None) as app:
            result = await scene(app, clock)
            await check_database(app)
        return result

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(play())
