"""What people read when a call stands in the wrong place: what it was, where, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

import onward
from onward import App, Signal, effect, effect_key, step, workflow
from onward.errors import NotFound, NotInBody, NotOpen, RunOver

approval = Signal("approval", bool)


@workflow
async def idle() -> None: ...


@effect
async def ring() -> None: ...


CALLS: dict[str, Any] = {
    "sleep": lambda: onward.sleep(1),
    "signal": approval.wait,
    "start": lambda: onward.start(idle),
    "effect": ring,
    "child": idle,
}


@step
async def try_it(call: str) -> str:
    try:
        await CALLS[call]()
    except NotInBody as refused:
        return str(refused)
    return "nothing was refused"


@workflow
async def in_a_step(call: str) -> str:
    return await try_it(call)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("sleep",
        "onward.sleep was called in a step, but only a workflow can sleep durably. Use "
        "asyncio.sleep for short delays, or raise Retryable(after=...).",),
        ("signal",
        "wait() for signal 'approval' was called in a step, but works only in a workflow. Call it "
        "from a workflow."),
        ("start", "onward.start(idle) was called in a step, but works only in a workflow. Outside, "
                  "use app.start."),
        ("effect", "effect 'ring' was called in a step, but effects can be called only from a "
                   "workflow body. Call it from the workflow, or call .fn for the plain function."),
        ("child", "workflow 'idle' was called in a step, but only a workflow can have children. "
                  "Call it from the workflow, or call .fn for the plain function."),
    ],
)  # fmt: skip
async def test_a_call_that_a_step_cannot_make_is_an_error(
    memory: App, call: str, told: str
) -> None:
    async with memory, memory.worker():
        assert await memory.run(in_a_step, call) == told


async def test_a_call_that_only_a_run_can_make_is_an_error_outside() -> None:
    with pytest.raises(NotInBody) as refused:
        onward.current()
    assert str(refused.value) == (
        "onward.current() was called outside a run. Call it in a workflow or a step."
    )
    with pytest.raises(NotInBody, match=r"was called outside a run, but works only in a work"):
        await approval.wait()


@workflow
async def ask_for_a_key() -> str:
    try:
        return effect_key()
    except NotInBody as refused:
        return str(refused)


async def test_a_key_without_an_effect_is_an_error(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(ask_for_a_key) == (
            "effect_key() was called outside an effect handler. Call it in a "
            "function that is decorated with @effect."
        )


async def test_an_app_that_is_not_open_says_how_to_open_it(app: App) -> None:
    async with app:
        pass
    with pytest.raises(NotOpen) as away:
        await app.runs()
    assert str(away.value).endswith(" is not open here. Use the app inside `async with app`.")


async def test_a_run_that_is_not_to_be_retried_says_what_else_to_do(app: App) -> None:
    async with app, app.worker():
        await app.run(idle.options(id="idle-1"))
        with pytest.raises(RunOver) as over:
            await app.retry("idle-1")
        assert str(over.value) == (
            "run idle-1: it has succeeded. Fork it to run a part of it again."
        )


async def test_a_step_that_is_not_in_history_is_named_with_its_run(app: App) -> None:
    async with app, app.worker():
        await app.run(idle.options(id="idle-1"))
        with pytest.raises(NotFound, match="no step 'slep' in the history of run 'idle-1'"):
            await app.fork("idle-1", "slep")


async def test_a_signal_that_did_not_come_is_named(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(in_vain) == (
            "the wait for 'approval' took longer than its timeout. Catch TimeoutError, or allow "
            "more time."
        )


@workflow
async def in_vain() -> str:
    try:
        await approval.wait(timeout="1ms")
    except TimeoutError as late:
        return str(late)
    return "it came"
