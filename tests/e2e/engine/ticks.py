"""Workflows for schedules and for the cache, which note that their steps ran."""

from __future__ import annotations

from onward import step, workflow
from tests.e2e.engine.outside import note


@step
async def noted() -> None:
    note()


@workflow
async def tick() -> None:
    await noted()


@step(cache="1h")
async def looked_up(count: int) -> list[int]:
    note()
    return list(range(count))


@workflow
async def look_up(count: int) -> list[int]:
    return await looked_up(count)
