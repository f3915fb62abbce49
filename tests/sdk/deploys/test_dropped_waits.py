"""Code that no longer waits for a signal that has not come, and does something else instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import Signal, effect, step, workflow
from tests.kit.deploys import SECONDS, deployed, waits_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward import App

    Code = Callable[[], Coroutine[None, None, str]]

go = Signal("go", str)


@step
async def pack(what: str) -> str:
    return f"[{what}]"


@effect
async def post(what: str) -> str:
    return f"{what} is posted"


@workflow
async def helper(what: str) -> str:
    return f"{what} helped"


async def waits() -> str:
    return await pack("a") + await go.wait()


async def packs() -> str:
    return await pack("a") + await pack("b")


async def posts() -> str:
    return await pack("a") + await post("b")


async def asks_a_child() -> str:
    return await pack("a") + await helper("b")


async def ends() -> str:
    return await pack("a")


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (packs, "[a][b]"),
        (posts, "[a]b is posted"),
        (asks_a_child, "[a]b helped"),
        (ends, "[a]"),
    ],
)
async def test_a_run_may_do_something_else_than_wait_for_a_signal_that_has_not_come(
    memory: App, code: Code, result: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory:
        async with memory.worker(workflows=[deployed(waits)]):
            run = await memory.start(deployed(waits).options(id="run"))
            await waits_for(run, "go")
        await memory.pause("run")
        await memory.resume("run")

        async with memory.worker(workflows=[deployed(code), helper]):
            assert await run.result(timeout=SECONDS) == result

    events = [getattr(record, "event", "") for record in caplog.records]
    assert "run.unread" in events
    assert "run.paused" not in events
