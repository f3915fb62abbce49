"""Workflows with steps that a test holds up, or that take their worker down."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from onward import step, workflow
from tests.e2e.engine.outside import VARIABLE, note
from tests.e2e.engine.shapes import double


def gate(name: str) -> Path:
    """Return the file that opens a gate by being there."""
    return Path(f"{os.environ[VARIABLE]}.{name}")


@step
async def pass_gate(name: str) -> str:
    note()
    while not gate(name).exists():
        await asyncio.sleep(0.01)
    return name


@step
async def abort() -> None:
    note()
    os.abort()


@step
async def take_a_while(n: int) -> int:
    note()
    await asyncio.sleep(0.3)
    return n


@workflow
async def gated(name: str) -> list[object]:
    return [await double(1), await pass_gate(name), await double(2)]


@workflow
async def many_gates(name: str) -> list[str]:
    return [await pass_gate(f"{name}-{n}") for n in range(3)]


@workflow
async def aborting() -> None:
    await abort()


@workflow
async def innocent(n: int) -> int:
    return await double(await take_a_while(n))
