"""Plays all scenarios with a worker, and reports the rules that it broke."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.testing.protocol.rules import Broken, RuleBroken
from onward.testing.protocol.scenarios import SCENARIOS
from onward.testing.protocol.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAX_SECONDS = 300.0
PATIENCE = 8.0


async def play(
    command: Sequence[str],
    names: Iterable[str] = (),
    *,
    at_once: int = 2,
    patience: float = PATIENCE,
    report: Callable[[str, Broken | None], None] = lambda _name, _broken: None,
) -> list[Broken]:
    """Play scenarios, each with a worker process of its own, and return the rules that it broke.

    Args:
        command: Starts a worker with the test program, which `docs/protocol.md` describes.
        names: The scenarios to play; by default all of them.
        at_once: How many are played at a time.
        patience: How many seconds the worker may take for what it must do at once.
        report: Is called after each scenario, with its name and the rule that was broken, if any.
    """
    found: list[Broken] = []
    places = asyncio.Semaphore(at_once)

    async def one(name: str) -> None:
        async with places:
            broken = await _play(command, name, patience)
            report(name, broken)
            if broken is not None:
                found.append(broken)

    async with asyncio.TaskGroup() as group:
        for name in names or SCENARIOS:
            group.create_task(one(name))
    return found


async def _play(command: Sequence[str], name: str, patience: float) -> Broken | None:
    world = World(command, patience)
    try:
        async with asyncio.timeout(MAX_SECONDS):
            await world.begin()
            await SCENARIOS[name](world)
            world.check()
    except RuleBroken as broken:
        return Broken(broken.rule, name, broken.seen)
    except TimeoutError:
        return Broken("ends", name, f"the scenario was not over after {MAX_SECONDS:g} s")
    finally:
        await world.end()
    return None
