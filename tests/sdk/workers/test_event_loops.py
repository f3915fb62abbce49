"""Other event loops as hosts: the body's own loop does not care."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

import onward
from onward import App, step, workflow
from tests.kit.pythons import makes_environments, pythons

if TYPE_CHECKING:
    from collections.abc import Callable


@step
async def halve(n: int) -> float:
    await asyncio.sleep(0)
    return n / 2


@step
def negate(n: float) -> float:
    return -n


@workflow
async def calculate(numbers: list[int]) -> list[float]:
    async with asyncio.TaskGroup() as group:
        halves = [group.create_task(halve(number)) for number in numbers]
    await onward.sleep("10ms")
    async with asyncio.timeout(60):
        return list(await asyncio.gather(*(negate(half.result()) for half in halves)))


async def calculated(url: str) -> list[float]:
    app = App(url)
    async with app, app.worker():
        return await app.run(calculate, [2, 4, 6])


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_run_is_the_same_on_every_host(
    url: str, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(calculated(url)) == [-1.0, -2.0, -3.0]


@makes_environments
@pytest.mark.parametrize("place", [":memory:", "eager.db"])
def test_a_host_may_let_its_tasks_begin_at_once(place: str, tmp_path: Path) -> None:
    address = place if place == ":memory:" else str(tmp_path / place)
    newest = pythons()[-1]  # such tasks came with 3.12

    done = subprocess.run(
        [newest, "-m", "tests.sdk.workers.eager", address],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
        cwd=Path(__file__).parents[3],
    )

    assert done.stderr == ""
    assert json.loads(done.stdout) == [[n / -2, n / -2 - 1] for n in range(20)]
