"""A run that is to stop begins nothing new: no step, no effect and no run, wherever it is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, NotApplied, Retry, effect, step, workflow
from onward.errors import RunCancelled
from tests.kit.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import Run, Workflow

DEADLINE = 20


class Begun:
    """What was begun after the first step; reset before each test."""

    calls: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other


@pytest.fixture(autouse=True)
def _nothing_begun() -> None:
    Begun.calls.clear()


@step
async def work(seconds: float) -> None:
    await asyncio.sleep(seconds)


@step
async def more() -> None:
    Begun.calls.append("more")


@effect
async def pay() -> None:
    Begun.calls.append("pay")


@workflow
async def child() -> None:
    Begun.calls.append("child")


@workflow
async def then_a_step() -> None:
    await work(1)
    await more()


@workflow
async def then_an_effect() -> None:
    await work(1)
    await pay()


@workflow
async def then_a_child() -> None:
    await work(1)
    await child()


@workflow
async def beside_a_step() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(work(30))
        group.create_task(then_an_effect.fn())


BODIES = [then_a_step, then_an_effect, beside_a_step, then_a_child]
"""The last one starts its child before its worker leaves, if that leaves."""


async def paused(app: App, body: Workflow[[], None], *, has_deadline: bool) -> Run[None]:
    """Pause a run within its first step, and then cancel it or let its deadline pass."""
    async with app.worker():
        run = await started(app, body, has_deadline=has_deadline)
        await app.pause("r")
        await asyncio.sleep(5)
        await stopped(run, has_deadline=has_deadline)
        await ended(run)
    return run


async def deployed(app: App, body: Workflow[[], None], *, has_deadline: bool) -> Run[None]:
    """Cancel a run, or let its deadline pass, while it has no worker."""
    run = await started(app, body, has_deadline=has_deadline, is_alone=True)
    await stopped(run, has_deadline=has_deadline)
    async with app.worker():
        await ended(run)
    return run


async def started(
    app: App, body: Workflow[[], None], *, has_deadline: bool, is_alone: bool = False
) -> Run[None]:
    """Start a run and come back within its first step; then its worker leaves if it is alone."""
    options = body.options(id="r", deadline=DEADLINE if has_deadline else None)
    if not is_alone:
        run = await app.start(options)
        await asyncio.sleep(0.5)
        return run
    async with app.worker():
        run = await app.start(options)
        await asyncio.sleep(0.5)
    return run


async def stopped(run: Run[None], *, has_deadline: bool) -> None:
    if has_deadline:
        await asyncio.sleep(DEADLINE + 10)
    else:
        assert await run.cancel()


async def ended(run: Run[None]) -> None:
    with pytest.raises(RunCancelled):
        await run.result(timeout=200)


@pytest.mark.parametrize(
    ("scene", "body"),
    [*((paused, body) for body in BODIES), *((deployed, body) for body in BODIES[:-1])],
)
@pytest.mark.parametrize("has_deadline", [False, True], ids=["cancel", "deadline"])
def test_nothing_new_begins_after_a_run_was_to_stop(
    scene: Callable[..., Awaitable[Any]], has_deadline: bool, body: Workflow[[], None]
) -> None:
    in_virtual_time(lambda app, _: scene(app, body, has_deadline=has_deadline))

    assert Begun.calls == []


# --- what waits for its next attempt --------------------------------------------------------------


@effect(retry=Retry(attempts=3, delay="30s", max_delay="30s"))
async def refused() -> None:
    Begun.calls.append("refused")
    raise NotApplied


@step(retry=Retry(attempts=3, delay="30s", max_delay="30s"))
async def failing() -> None:
    Begun.calls.append("failing")
    raise ConnectionError


@workflow
async def tries_an_effect() -> None:
    await refused()


@workflow
async def tries_a_step() -> None:
    await failing()


@pytest.mark.parametrize("body", [tries_an_effect, tries_a_step])
def test_no_attempt_is_made_whose_time_came_while_the_cancelled_run_had_no_worker(
    body: Workflow[[], None],
) -> None:
    async def scene(app: App) -> None:
        async with app.worker():
            run = await app.start(body)
            await asyncio.sleep(1)
        await asyncio.sleep(60)
        await run.cancel()
        async with app.worker():
            with pytest.raises(RunCancelled):
                await run.result(timeout=200)

    in_virtual_time(lambda app, _: scene(app))

    assert len(Begun.calls) == 1
