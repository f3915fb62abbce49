"""Attempts that are stopped: they end, or are left behind."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

from onward.model.runs import NewRun
from onward.runtime.attempts.attempt import Attempt
from onward.telemetry.scope import RunScope, StepScope
from tests.unit.runtime.fake_engine import FakeRun, a_claim


class Silent:
    """A run that publishes no progress."""

    def report_progress(self, value: bytes) -> None: ...


class Watched(Attempt):
    """An attempt that notes how it ended."""

    def __init__(self) -> None:
        run = a_claim(FakeRun(NewRun("uid-a", "a", "flow", b"", "hash")))
        scope = StepScope(RunScope("a", "uid-a", "flow"), "charge", "charge#1", 1)
        super().__init__(run, scope, Silent())
        self.heard: list[str] = []

    def on_left(self) -> None:
        self.heard.append("left")

    def on_end(self, error: BaseException | None) -> None:
        self.heard.append("end")


async def started() -> tuple[Watched, asyncio.Event]:
    """Return an attempt whose code waits, and what it waits for."""
    attempt, answer = Watched(), asyncio.Event()

    async def code() -> None:
        await answer.wait()

    attempt.start(code(), asyncio.get_running_loop(), copy_context(), copy_context())
    await asyncio.sleep(0)
    return attempt, answer


async def settled() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_an_attempt_that_ends_as_its_time_is_up_is_not_left_behind() -> None:
    attempt, answer = await started()
    answer.set()  # after a freeze, the code goes on and the timer fires in one turn of the loop
    asyncio.get_running_loop().call_soon(attempt._leave)
    await settled()
    assert attempt.heard == ["end"]


async def test_an_attempt_that_does_not_end_in_time_is_left_behind() -> None:
    attempt, answer = await started()
    attempt._leave()
    answer.set()
    await settled()
    assert attempt.heard == ["left", "end"]
