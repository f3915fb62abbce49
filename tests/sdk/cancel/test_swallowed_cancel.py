"""Code that catches CancelledError and goes on: it is left behind, and nothing waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import Applied, Retry, Signal, effect, step, workflow
from onward.errors import TimedOut
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import App

ONCE = Retry(attempts=1)
begun: list[str] = []
ended: list[str] = []
free: list[asyncio.Event] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.attempts.attempt.STOP_SECONDS", 0.05)
    begun.clear()
    ended.clear()
    free[:] = [asyncio.Event()]


async def go_on(name: str) -> str:
    """Ignore every cancel."""
    begun.append(name)
    while not free[0].is_set():
        try:
            await free[0].wait()
        except asyncio.CancelledError:
            continue
    ended.append(name)
    return name


async def over() -> None:
    """Let everything end that was left behind, so that no task stays."""
    free[0].set()
    await until(is_over)


async def is_over() -> bool:
    return len(ended) == len(begun)


async def is_begun() -> bool:
    return bool(begun)


def left(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return kind and name of what the log says was left behind."""
    found = [vars(record) for record in caplog.records if record.name == "onward.step"]
    return [(each["kind"], each["step"]) for each in found if each["event"] == "step.abandoned"]


@step(timeout="50ms", retry=ONCE)
async def stubborn(name: str) -> str:
    return await go_on(name)


@workflow
async def takes_too_long() -> str:
    try:
        return await stubborn("step")
    except TimedOut:
        return "too long"


async def test_a_step_that_took_too_long_is_not_waited_for(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(app):
        run = await app.start(takes_too_long)
        assert await run.result(timeout="60s") == "too long"
        assert left(caplog) == [("step", "stubborn")]
        await over()
        assert [(row.name, row.state) for row in await run.history()] == [("stubborn", "failed")]


@step(timeout="50ms", retry=Retry(attempts=2, delay="1ms"))
async def stubborn_at_first() -> str:
    return await go_on("first") if not begun else "second"


@workflow
async def tries_again() -> str:
    result = await stubborn_at_first()
    await go.wait()
    return result


async def test_the_next_attempt_counts_whatever_comes_of_the_one_before(memory: App) -> None:
    async with working(memory):
        run = await memory.start(tries_again)
        await until_state(run, "waiting")
        await over()
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "second"
        states = sorted(
            (row.attempt, row.state) for row in await run.history() if row.kind == "step"
        )
        assert states == [(1, "failed"), (2, "succeeded")]


@step
async def very_stubborn(name: str) -> str:
    return await go_on(name)


@workflow
async def gives_up() -> str:
    try:
        await asyncio.wait_for(very_stubborn("step"), 0.05)
    except TimeoutError:
        return await go.wait()
    return "not reached"


async def test_a_run_that_gave_up_a_step_can_be_put_away(app: App) -> None:
    async with working(app):
        run = await app.start(gives_up)
        await until_state(run, "waiting")
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "on"
        await over()


async def test_a_cancel_does_not_wait_for_a_step(memory: App) -> None:
    async with working(memory):
        run = await memory.start(one_step)
        await until(is_begun)
        await run.cancel()
        await until_state(run, "cancelled")
        await over()


@workflow
async def one_step() -> str:
    return await very_stubborn("step")


@effect(timeout="50ms", settle="50ms", retry=ONCE)
async def stubborn_effect() -> str:
    return await go_on("effect")


@workflow
async def one_effect() -> str:
    return await stubborn_effect()


async def test_an_effect_that_took_too_long_is_uncertain(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(app):
        run = await app.start(one_effect)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        assert left(caplog) == [("effect", "stubborn_effect")]
        await over()
        assert (await effect_of(app, run, "indeterminate")).version == info.version

        await app.effects.resolve(info.id, "applied", result="by hand", reason="seen")
        assert await run.result(timeout="60s") == "by hand"


async def test_a_run_with_a_stubborn_effect_can_be_ended_by_force(memory: App) -> None:
    async with working(memory):
        run = await memory.start(one_effect)
        await until(is_begun)
        await run.cancel(force=True)
        await until_state(run, "cancelled")
        await over()


async def stubborn_answer(*, key: str) -> Applied[str]:
    return Applied(await go_on("reconciler"))


@effect(reconcile=stubborn_answer, timeout="50ms", settle="50ms", retry=ONCE)
async def asked() -> str:
    raise ConnectionError("no answer")


@workflow
async def one_asked() -> str:
    return await asked()


async def test_a_reconciler_that_took_too_long_does_not_know(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.core.effect.machine.RECONCILING", ONCE)
    async with working(memory):
        run = await memory.start(one_asked)
        await effect_of(memory, run, "indeterminate")
        await over()


async def test_a_worker_leaves_without_code_that_goes_on(memory: App) -> None:
    async with memory:
        async with memory.worker() as worker:
            object.__setattr__(worker.session._options, "drain", 10_000)
            run = await memory.start(one_step)
            await until(is_begun)
        assert await run.state() == "ready"
        await over()
