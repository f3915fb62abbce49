"""A workflow for schedules, which notes that its step ran."""

from __future__ import annotations

from onward import step, workflow
from tests.e2e.engine.outside import note


@step
async def noted() -> None:
    note()


@workflow
async def tick() -> None:
    await noted()
