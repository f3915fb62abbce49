"""Runs whose code does not let go: it swallows being cancelled, or hangs in a thread forever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.retry import Retry
from onward.errors import TimedOut
from onward.sdk.step import step
from onward.sdk.workflow import workflow
from tests.simulation.simulator.process import hang
from tests.simulation.simulator.sample_workflows import fetch, outside

if TYPE_CHECKING:
    from onward.sdk.workflow import Workflow

MAX_SWALLOWED = 3


@step(name="simulated stubborn", retry=Retry(attempts=1))
async def stubborn() -> str:
    """Take no notice of being cancelled, some times."""
    outside().begin()
    for _ in range(MAX_SWALLOWED):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue
    return "ended by itself"


@step(name="simulated hanging", timeout="2s", retry=Retry(attempts=2, delay="1s"))
def hanging() -> str:
    """Never come back from a thread."""
    outside().begin()
    hang()
    return "nobody hears of this"


@workflow(name="simulated swallower")
async def swallower() -> list[str]:
    """Take no notice of being cancelled."""
    for _ in range(MAX_SWALLOWED):
        try:
            await stubborn()
        except asyncio.CancelledError:
            continue
    return ["never stopped"]


@workflow(name="simulated hanger")
async def hanger() -> list[str]:
    """Give up a step that hangs, and go on."""
    try:
        await hanging()
    except (TimeoutError, TimedOut):
        return ["given up", (await fetch("after"))[:5]]
    return ["never hung"]


STUBBORN: dict[str, Workflow[[], list[str]]] = {each.name: each for each in (swallower, hanger)}
STEPS = (stubborn, hanging)


def is_right_stubborn(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result; None means that it was stopped."""
    if name == hanger.name:
        return result == ["given up", "after"]
    return result is None or result == ["never stopped"]
