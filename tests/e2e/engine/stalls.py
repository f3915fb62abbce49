"""Workflows whose code blocks the event loop of their worker."""

from __future__ import annotations

import os
import time

from onward import step, workflow
from tests.e2e.engine.gates import gate


def wait_for(name: str) -> int:
    """Block until a gate is open, and return the process that was blocked."""
    gate(f"{name}.{os.getpid()}.blocked").touch()
    while not gate(name).exists():
        time.sleep(0.01)
    return os.getpid()


@step
async def block_in_step(name: str) -> int:
    return wait_for(name)


@workflow
async def blocking(name: str) -> int:
    return wait_for(name)


@workflow
async def blocking_in_step(name: str) -> int:
    return await block_in_step(name)


@workflow
async def spinning() -> None:
    while True:
        pass
