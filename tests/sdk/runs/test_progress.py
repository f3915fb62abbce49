"""Progress that the code of a run publishes: the last value counts."""

from __future__ import annotations

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from tests.kit.watching import until, until_state, working

go = Signal("go")
broken: list[str] = []


@step(retry=Retry(attempts=1))
async def move(part: str) -> str:
    if part in broken:
        raise ValueError(part)
    return part


@workflow
async def removal(waits: bool) -> str:
    for part in ("boxes", "chairs", "piano"):
        onward.current().progress(part)
        await move(part)
    if waits:
        await go.wait()
    onward.current().progress("done")
    return "moved"


async def test_the_last_value_is_there_when_the_run_has_ended(app: App) -> None:
    async with working(app):
        run = await app.start(removal, False)
        await run.result(timeout="60s")
        assert (await run.info()).progress == "done"


async def test_a_failed_run_has_the_last_value_too(app: App) -> None:
    broken[:] = ["piano"]
    async with working(app):
        run = await app.start(removal, False)
        await until_state(run, "failed")
        assert (await run.info()).progress == "piano"


@pytest.mark.parametrize("part", ["boxes", "chairs"])
async def test_a_fork_has_the_progress_of_the_calls_that_it_keeps(app: App, part: str) -> None:
    broken.clear()
    async with working(app):
        run = await app.start(removal, False)
        await run.result(timeout="60s")
        [identity] = [event.identity for event in await run.history() if event.value == part]
        broken[:] = ["piano"]
        fork = await app.fork(run.id, identity, result="other")
        await until_state(fork, "failed")
        assert (await fork.info()).progress == "piano"


async def test_a_retry_that_waits_has_the_progress_of_the_calls_that_it_keeps(app: App) -> None:
    broken[:] = ["piano"]
    async with working(app):
        run = await app.start(removal, True)
        await until_state(run, "failed")
        broken.clear()
        again = await app.retry(run.id)
        await until_state(again, "waiting")

        async def is_there() -> bool:
            return bool((await again.info()).progress == "piano")

        await until(is_there)
        await again.signal(go)
        await again.result(timeout="60s")
        assert (await again.info()).progress == "done"


@workflow
async def kept() -> None:
    await move("boxes")
    onward.current().progress("half")
    await move("chairs")
    await go.wait()


async def test_a_fork_of_all_history_has_the_progress_before_its_wait(app: App) -> None:
    broken.clear()
    async with working(app):
        run = await app.start(kept)
        await until_state(run, "waiting")
        fork = await app.fork(run.id, new_id="beside")
        await until_state(fork, "waiting")

        async def is_there() -> bool:
            return bool((await fork.info()).progress == "half")

        await until(is_there)
