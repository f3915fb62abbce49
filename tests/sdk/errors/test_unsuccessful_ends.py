"""`info().error` says why, for every run that ended without a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, NotApplied, Retry, Signal, effect, workflow
from onward.errors import RunFailed
from tests.kit.deploys import SECONDS
from tests.kit.watching import children_of, until_state, working

if TYPE_CHECKING:
    from pathlib import Path

    from onward import Run

go = Signal("go")


@workflow
async def waits() -> None:
    await go.wait()


@workflow
async def waits_for_a_child() -> None:
    await waits()


@workflow
async def cleans_up_badly() -> None:
    try:
        await go.wait()
    finally:
        raise LookupError("lost the broom")


async def waiting(app: App, started: onward.Workflow[[], None]) -> Run[None]:
    run = await app.start(started)
    await until_state(run, "waiting")
    return run


async def error_of(run: Run[None], state: str) -> str | None:
    await until_state(run, state)
    return (await run.info()).error


async def test_a_run_that_is_open_or_has_succeeded_has_no_error(memory: App) -> None:
    async with memory, memory.worker():
        run = await waiting(memory, waits)
        assert (await run.info()).error is None
        await run.signal(go)
        assert await error_of(run, "succeeded") is None


async def test_a_cancelled_run_says_so(memory: App) -> None:
    async with memory, memory.worker():
        run = await waiting(memory, waits)
        await run.cancel()
        assert await error_of(run, "cancelled") == "it was cancelled (operator)"


async def test_a_run_cancelled_by_force_says_so(memory: App) -> None:
    async with memory, memory.worker():
        run = await waiting(memory, waits)
        await run.cancel(force=True)
        assert await error_of(run, "cancelled") == "it was forcibly cancelled, without cleanup"


async def test_a_run_whose_cleanup_failed_has_that_error(memory: App) -> None:
    async with memory, memory.worker():
        run = await waiting(memory, cleans_up_badly)
        await run.cancel()
        assert "LookupError: lost the broom" in (await error_of(run, "failed") or "")


async def test_a_child_that_ends_with_its_parent_says_so(memory: App) -> None:
    async with memory, memory.worker():
        run = await waiting(memory, waits_for_a_child)
        [child] = await children_of(memory, run)
        await run.cancel()
        told = await error_of(await memory.get(child.id), "cancelled")
        assert told == "it was cancelled together with the run that started it"


async def test_a_replaced_run_says_so(memory: App) -> None:
    async with memory, memory.worker():
        first = await memory.start(waits.options(id="one"))
        await until_state(first, "waiting")
        await memory.start(waits.options(id="one", on_conflict="replace"))
        [_, old] = await memory.runs(name="waits")
        report = await memory._engine.report(old.uid)
        assert report.info.error == "it was cancelled: a new run with its id replaced it"


async def test_a_run_that_missed_its_deadline_says_so(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(waits.options(deadline="20ms"))
        assert await error_of(run, "timed_out") == "it passed its deadline"


async def test_a_run_that_crashed_its_workers_says_so(memory: App) -> None:
    async with memory:
        run = await memory.start(waits)
        await memory._store.stop(run.uid, state="failed", reason="crashed")
        told = "its workers crashed repeatedly while executing it"
        assert await error_of(run, "failed") == told
        with pytest.raises(RunFailed, match=told):
            await run.result(timeout=SECONDS)


@workflow
async def raises() -> None:
    raise ValueError("no")


async def test_the_error_of_a_run_in_memory_names_no_command(memory: App) -> None:
    async with working(memory):
        run = await memory.start(raises)
        with pytest.raises(RunFailed, match=r"See its history: await run\.history\(\)"):
            await run.result(timeout="60s")


async def test_the_error_of_a_run_names_the_command_that_shows_it(tmp_path: Path) -> None:
    app = App(str(tmp_path / "app.db"))
    async with working(app):
        run = await app.start(raises.options(id="r"))
        with pytest.raises(RunFailed, match="See its history: onward runs show r"):
            await run.result(timeout="60s")


@effect(retry=Retry(attempts=1))
async def pays() -> None:
    raise NotApplied("declined")


@workflow
async def buys() -> None:
    await pays()


async def test_a_run_ended_by_an_effect_that_did_not_happen_raises_a_failed_run(
    memory: App,
) -> None:
    async with working(memory):
        run = await memory.start(buys)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout="60s")
    assert isinstance(failed.value, NotApplied)
    assert type(failed.value.__cause__) is NotApplied
    assert run.id in str(failed.value)
