"""Runs that wait in every way there is, and measure how long that took."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.retry import Retry
from onward.engine.starting import StartOptions
from onward.runtime.context import step_now
from onward.sdk.current import current
from onward.sdk.step import step
from onward.sdk.waits import sleep
from onward.sdk.workflow import workflow
from tests.simulation.simulator.sample_workflows import fetch, outside
from tests.simulation.simulator.samplers import silence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.sdk.workflow import Workflow

SHORT_SECONDS = 4
LONG_SECONDS = 12
GAP_SECONDS = 5
DEADLINE_SECONDS = 40


@contextmanager
def measured(what: str, seconds: float) -> Iterator[None]:
    """Measure what the code waits for, by its name in the chain of the run."""
    wait = f"{what} of {current().id}"
    outside().stopwatch.begin(wait, seconds)
    yield
    outside().stopwatch.end(wait)


@step(name="simulated gaps", retry=Retry(attempts=3, delay=GAP_SECONDS, factor=1))
async def gaps() -> int:
    """Fail twice, and measure how soon it is tried again."""
    outside().begin()
    attempt = step_now.get()
    assert attempt is not None
    wait = f"gap {attempt.identity} of {attempt.run.uid}"
    if attempt.number > 1:
        outside().stopwatch.end(f"{wait} {attempt.number - 1}")
    if attempt.number < 3:
        outside().stopwatch.begin(f"{wait} {attempt.number}", GAP_SECONDS)
        raise ValueError(f"attempt {attempt.number} fails")
    return attempt.number


def deadline_of(run_id: str) -> str:
    """Return what the wait until the deadline of a run is called; it begins with the start."""
    return f"deadline of {run_id}"


async def _limited(seconds: float) -> None:
    with measured(f"timeout {seconds}", seconds), suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await silence.wait()


async def _patient(seconds: float) -> None:
    with measured(f"signal {seconds}", seconds), suppress(TimeoutError):
        await silence.wait(timeout=seconds)


@workflow(name="simulated sleeper")
async def sleeper() -> list[str]:
    """Sleep after steps, so that whatever happens meanwhile happens before the sleep is asked."""
    for seconds in (SHORT_SECONDS, LONG_SECONDS):
        await fetch("before")
        with measured(f"sleep {seconds}", seconds):
            await sleep(seconds)
    await fetch("before")
    with measured("asyncio.sleep", SHORT_SECONDS):
        await asyncio.sleep(SHORT_SECONDS)
    return ["slept"]


@workflow(name="simulated limits")
async def limits() -> list[str]:
    """Wait for what never comes, with limits."""
    await fetch("before")
    await _limited(SHORT_SECONDS)
    await fetch("between")
    await _patient(LONG_SECONDS)
    await asyncio.gather(_limited(LONG_SECONDS), fetch("beside"), gaps())
    return ["waited"]


@workflow(name="simulated late")
async def late() -> list[str]:
    """Work until the deadline, and take its time to clean up."""
    try:
        await fetch("before")
        await sleep("1h")
    except asyncio.CancelledError:
        outside().stopwatch.end(deadline_of(current().id))
    await fetch("tidy")
    with measured("cleanup", LONG_SECONDS):
        await sleep(LONG_SECONDS)
    await fetch("tidied")
    return ["never late"]


MEASURED: dict[str, Workflow[[], list[str]]] = {each.name: each for each in (sleeper, limits, late)}
OPTIONS = {late.name: StartOptions(deadline=DEADLINE_SECONDS * SECOND)}
STEPS = (gaps,)
CHILDREN: tuple[Workflow[..., Any], ...] = ()


def is_right_measured(name: str, result: list[str] | None) -> bool:
    """Say whether a run of this workflow may have this result; None means that it was cancelled."""
    return result == {sleeper.name: ["slept"], limits.name: ["waited"]}.get(name)
