"""The App is for code outside of runs: in the body of one it is refused at the line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, step, workflow
from onward.errors import BadInput, RunFailed
from tests.kit.watching import working

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

apps: dict[str, App] = {}


@workflow
async def child() -> int:
    return 1


CALLS: dict[str, Callable[[App], Awaitable[Any]]] = {
    "start": lambda app: app.start(child),
    "run": lambda app: app.run(child),
    "get": lambda app: app.get("other"),
    "signal": lambda app: app.signal("other", "go"),
    "cancel": lambda app: app.cancel("other"),
    "runs": lambda app: app.runs(),
    "effects": lambda app: app.effects.pending(),
}


@workflow
async def reaches_out(what: str) -> None:
    await CALLS[what](apps["app"])


@step
async def starts_another() -> int:
    return await (await apps["app"].start(child)).result(timeout="60s")


@workflow
async def by_a_step() -> int:
    return await starts_another()


@pytest.mark.parametrize("what", CALLS)
async def test_a_call_of_the_app_in_a_body_fails_at_the_line(app: App, what: str) -> None:
    apps["app"] = app
    async with working(app):
        await app.start(child.options(id="other"))
        with pytest.raises(RunFailed, match=r"in a workflow body would be repeated"):
            await app.run(reaches_out, what)
        assert await app.run(child) == 1  # other runs continue


async def test_in_a_step_the_app_can_be_used(app: App) -> None:
    apps["app"] = app
    async with working(app):
        assert await app.run(by_a_step) == 1


async def test_what_is_no_workflow_is_not_started(memory: App) -> None:
    async def plain() -> None:
        """Do nothing."""

    async with memory:
        with pytest.raises(BadInput, match="is not a workflow"):
            await memory.start(plain)  # type: ignore[arg-type] # that is what is refused


@pytest.mark.filterwarnings("error")
async def test_a_call_of_a_workflow_is_not_started(memory: App) -> None:
    async with memory:
        with pytest.raises(BadInput) as refused:
            await memory.start(by_a_step())  # type: ignore[arg-type] # that is what is refused
    assert str(refused.value) == (
        "by_a_step(...) is a call, not a workflow."
        " Pass the workflow and its arguments: app.start(by_a_step, ...)."
    )


def test_a_lambda_has_no_name_to_be_stored_under() -> None:
    with pytest.raises(BadInput, match="lambda"):
        step(lambda: 1)


@pytest.mark.parametrize("made", [step, workflow])
def test_a_number_is_no_policy(made: Any) -> None:
    async def never_made() -> None:
        """Do nothing."""

    with pytest.raises(BadInput, match=r"Write retry=Retry\(attempts=3\)"):
        made(retry=3)(never_made)


def test_a_number_is_no_policy_for_runs_either() -> None:
    with pytest.raises(BadInput, match="is not a Retry"):
        child.options(retry=3)  # type: ignore[arg-type] # that is what is refused
    assert child.options(retry=Retry(attempts=3)).start_options.retry is not None


@pytest.mark.parametrize("asked", [{"limit": -1}, {"state": "bogus"}])
async def test_a_list_that_makes_no_sense_is_refused(app: App, asked: dict[str, Any]) -> None:
    async with app:
        with pytest.raises(BadInput):
            await app.runs(**asked)


@workflow
async def takes_a_number() -> int:
    return await onward.Signal("go", int).wait()


async def test_a_signal_of_the_wrong_type_is_replaced_by_a_fork(app: App) -> None:
    async with working(app):
        run = await app.start(takes_a_number)
        await run.signal("go", "poison")
        with pytest.raises(onward.errors.RunPaused):
            await run.result(timeout="60s", raise_paused=True)

        mended = await app.fork(run.id, "go", result=4)

        assert await mended.result(timeout="60s") == 4
