"""`onward check`: the code of this process is tried on the open runs of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import effect
from onward.errors import BadPipeline
from onward.pipelines import Consumer, Pipeline, Prepared
from onward.sdk.deploy_check import check_open_runs
from onward.sdk.pipelines import process
from tests.kit.watching import until

if TYPE_CHECKING:
    from onward import App
    from onward.pipelines import MutateContext, PrepareContext, Topic
    from onward.sdk.deploy_check import CheckedRun


@effect(name="checked.write", approve=True)
async def write(text: str) -> None: ...


@effect(name="checked.rewrite", approve=True)
async def rewrite(text: str) -> None: ...


def a_pipeline(*, is_changed: bool = False) -> Topic[str]:
    process.registered.clear()
    checked = Pipeline("checked")
    words = checked.topic("checked.words", str)

    @checked.consumer(subscribes=[words])
    class Write(Consumer[None, str]):
        async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[str]:
            events = await ctx.peek(words, limit=1)
            return Prepared(reserve=events, data=events[0].payload)

        async def mutate(self, ctx: MutateContext, prepared: Prepared[str]) -> None:
            await (rewrite if is_changed else write)(prepared.data)

    return words


async def pause_a_run(app: App) -> str:
    """Let a consumer choose an effect that waits for approval, and return the uid of its run."""
    words = a_pipeline()
    await app.publish(words, "hello", id="1")
    async with app.worker():

        async def is_paused() -> bool:
            return bool(await app.runs(state="paused"))

        await until(is_paused)
    [run] = await app.runs(state="paused")
    return run.uid


async def checked_run(app: App, uid: str) -> CheckedRun:
    [found] = [each async for each in check_open_runs(app, [uid])]
    return found


async def test_code_that_has_not_changed_fits_an_open_run_of_a_consumer(memory: App) -> None:
    async with memory:
        uid = await pause_a_run(memory)
        found = await checked_run(memory, uid)
    assert (found.name, found.skipped, found.misfit) == ("consumer checked.Write", None, None)


async def test_code_that_chooses_another_effect_does_not_fit(memory: App) -> None:
    async with memory:
        uid = await pause_a_run(memory)
        a_pipeline(is_changed=True)
        found = await checked_run(memory, uid)
    assert found.misfit is not None


async def test_a_run_of_a_handler_that_is_not_defined_here_is_left_out(memory: App) -> None:
    async with memory:
        uid = await pause_a_run(memory)
        process.registered.clear()
        found = await checked_run(memory, uid)
    assert found.skipped == "not defined by this code"


async def test_wrong_declarations_are_found(memory: App) -> None:
    Pipeline("empty")
    async with memory:
        with pytest.raises(BadPipeline):
            await checked_run(memory, "any")
