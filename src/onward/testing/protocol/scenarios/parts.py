"""Parts that several scenarios have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World

    Scenario = Callable[[World], Awaitable[None]]


def knows_sum(world: World, *numbers: int) -> None:
    """Say that the workflow `sum` adds these numbers."""
    total = 0
    for number in numbers:
        world.knows("add", a=total, b=number)
        total += number


def by_name(*scenarios: Scenario) -> dict[str, Scenario]:
    """Return scenarios by the names of their functions."""
    return {scenario.__name__: scenario for scenario in scenarios}


async def is_running(world: World, run: PlayedRun) -> None:
    """Wait until a run is claimed, and a moment longer, so that its code has begun."""
    await world.until(lambda: run.state == "running", "one-claim", "it was not claimed")
    await world.quiet()
