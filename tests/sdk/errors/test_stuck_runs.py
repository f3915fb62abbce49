"""A wait for a run that cannot continue says why: in the log after a while, and in its error."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Signal, effect, step, workflow
from onward.errors import NoWorker
from onward.sdk import stuck
from tests.kit.watching import until, until_open, until_state
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from pathlib import Path

    from onward import Run

go = Signal("go", str)
gates: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _gates() -> None:
    gates["work"] = asyncio.Event()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "STUCK_SECONDS", 0.05)


@workflow
async def waits() -> str:
    return await go.wait(timeout="1d")


@workflow
async def naps() -> None:
    await onward.sleep("1d")


@workflow
async def waits_below() -> str:
    return await waits.options(id="below")()


@step
async def work() -> None:
    await gates["work"].wait()


@workflow
async def works() -> None:
    await work()


@workflow
async def sends_it_away() -> None:
    await work.options(queue="far")()


@workflow
async def crowd() -> None:
    await asyncio.gather(*(work.options(limit=1)() for _ in range(2)))


@effect(timeout="1s", settle="1ms", retry=onward.Retry(attempts=1))
async def vanishes() -> None:
    raise ConnectionError("no reply")


@workflow
async def sends() -> None:
    await vanishes()


ALL: Any = [waits, naps, waits_below, works, sends_it_away, crowd, sends]


async def timed_out(run: Run[Any], timeout: str = "50ms") -> str:
    """Return the message of a wait that has timed out."""
    with pytest.raises(TimeoutError) as late:
        await run.result(timeout=timeout)
    return str(late.value)


# --- the error ------------------------------------------------------------------------------------


async def test_a_timeout_names_the_run_its_state_and_the_missing_worker(memory: App) -> None:
    async with memory:
        run = await memory.start(waits.options(id="w1", queue="far"))

        assert await timed_out(run) == (
            "run w1 has not ended within 50ms: it is ready; no worker serves queue 'far'."
            " Next: Start a worker that takes the run."
        )


async def test_a_timeout_of_zero_says_the_same(memory: App) -> None:
    async with memory:
        run = await memory.start(waits.options(id="w1"))

        said = await timed_out(run, "0s")
        assert said.startswith("run w1 has not ended: it is ready; no worker serves queue")


async def test_a_timeout_names_the_signal_that_is_waited_for(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(waits.options(id="w1"))
        await until_open(run, "go")

        said = await timed_out(run)
        assert re.search(r"it is waiting for signal go \(since \S+ \S+Z, until ", said)
        assert said.endswith("Next: onward runs signal w1 go VALUE.")


async def test_a_timeout_names_what_the_awaited_child_waits_for(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(waits_below.options(id="above"))
        await until_open(run, "waits")
        await until_state(await memory.get("below"), "waiting")

        said = await timed_out(run)
        assert "it is waiting for child waits (since" in said
        assert "; run below: it is waiting for signal go (since" in said


async def test_a_timeout_names_the_worker_of_a_run_that_runs(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL) as worker:
        run = await memory.start(works.options(id="busy"))
        await until_state(run, "running")

        said = await timed_out(run)
        gates["work"].set()
        assert said == f"run busy has not ended within 50ms: it is running on worker {worker.id}."


async def test_a_timeout_of_a_paused_run_names_the_command_that_resumes_it(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(naps.options(id="held"))
        await until_state(run, "waiting")
        await memory.pause("held")
        await until_state(run, "paused")

        said = await timed_out(run)
        assert said.startswith("run held has not ended within 50ms: it is paused; run held is pau")
        assert said.endswith("Next: onward runs resume held.")


def test_the_sync_client_says_the_same() -> None:
    with App(":memory:").sync() as app:
        run = app.start(waits.options(id="w1"))
        with pytest.raises(TimeoutError, match="run w1 has not ended within 50ms: it is ready; no"):
            run.result(timeout="50ms")


# --- the log --------------------------------------------------------------------------------------


async def logged(run: Run[Any]) -> list[object]:
    """Wait for a run until a warning is logged, and return why it cannot continue."""
    event = "run.stuck"
    with a_log(logging.WARNING) as log:
        waiting = asyncio.ensure_future(run.result())
        await until(lambda: event in log.events)
        await asyncio.wait([waiting], timeout=0.15)
        waiting.cancel()
    return [vars(each)["why"] for each in log.records if vars(each)["event"] == event]


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"queue": "far"}, "no worker serves queue 'far'"),
        ({"tags": ["gpu"]}, "no worker has one of the tags 'gpu'"),
    ],
)
async def test_a_run_that_no_worker_can_take_is_reported_once(
    memory: App, options: dict[str, Any], why: str
) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(waits.options(**options))
        assert await logged(run) == [why]


@pytest.mark.usefixtures("soon")
async def test_a_workflow_that_no_worker_knows_is_reported_by_app_run(memory: App) -> None:
    with a_log(logging.WARNING) as log:
        async with memory, memory.worker(workflows=[naps]):
            waiting = asyncio.ensure_future(memory.run(waits.options(id="w1")))
            await until(lambda: bool(log.lines))
            waiting.cancel()

    assert log.lines == [
        "run.stuck: run=w1 workflow=waits state=ready waited_seconds=0.05"
        ' why="no worker knows workflow \'waits\'" next="Start a worker that takes the run"'
    ]


@pytest.mark.usefixtures("soon")
async def test_a_version_that_no_worker_has_is_reported(tmp_path: Path) -> None:
    async with App(tmp_path / "app.db", version="1") as old:
        run = await old.start(waits)
        new = App(tmp_path / "app.db", version="2")
        async with new, new.worker(workflows=ALL):
            assert await logged(run) == ["no worker has version '1'"]


@pytest.mark.usefixtures("soon")
async def test_a_routed_step_without_a_worker_is_reported_to_who_waits_for_its_run(
    memory: App,
) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(sends_it_away)
        await until_open(run, "work")

        [why] = await logged(run)
        assert re.fullmatch(r"run \S+: no worker serves queue 'far'", str(why))


async def is_limited(app: App, run: Run[Any]) -> bool:
    return any(" running run" in str(each) for each in await app.why(run.id))


@pytest.mark.usefixtures("soon")
async def test_a_limit_that_is_reached_is_reported(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(crowd)
        await until_open(run, "work")
        await until(lambda: is_limited(memory, run))

        [why] = await logged(run)
        gates["work"].set()
        assert "workflow 'step work' has 1 running run, and the limit is 1" in str(why)
        await run.result(timeout="60s")


@pytest.mark.usefixtures("soon")
async def test_an_effect_that_waits_for_a_verdict_is_reported(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        run = await memory.start(sends)
        await until_state(run, "paused")

        [why] = await logged(run)
        assert why == "effect vanishes is indeterminate and is waiting for a verdict"


@pytest.mark.usefixtures("soon")
async def test_a_run_that_waits_for_a_signal_or_a_time_is_not_stuck(memory: App) -> None:
    async with memory, memory.worker(workflows=ALL):
        runs = [await memory.start(each) for each in (waits, naps, waits_below)]
        for run in runs:
            await until_state(run, "waiting")
        with a_log(logging.WARNING) as log:
            for run in runs:
                await timed_out(run, "200ms")

    assert log.lines == []


async def test_app_run_raises_if_no_worker_serves_the_queue(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onward.sdk.app, "NO_WORKER_SECONDS", 0.05)
    async with memory:
        with pytest.raises(NoWorker, match="no worker serves queue 'far'"):
            await memory.run(waits.options(queue="far"))
