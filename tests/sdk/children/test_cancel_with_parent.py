"""What becomes of children when the run that started them ends, or waits for them no more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, Signal, step, workflow
from onward.errors import RunCancelled
from tests.kit.watching import (
    children_of,
    until,
    until_idle,
    until_open,
    until_started,
    until_state,
)

if TYPE_CHECKING:
    from onward import App, Run

hint = Signal("hint", int)
leave = Signal("leave", int)


@step
async def tell(text: str) -> str:
    return text


@workflow
async def linger(text: str) -> int:
    """Wait for a hint, and clean up with a durable call however it ends."""
    try:
        return await hint.wait()
    finally:
        await tell(f"{text} is cleaned up")


def untidy(cancel_with_parent: bool | None) -> onward.Workflow[[str], int]:
    return linger.options(id="child", cancel_with_parent=cancel_with_parent)


async def why(child: Run[Any]) -> tuple[str, str | None]:
    info = await child.info()
    return info.state, info.reason


ENDED_WITH_ITS_PARENT = ("cancelled", "parent")


@workflow
async def end_beside(how: str, cancel_with_parent: bool | None) -> str:
    """Leave a child that is awaited by a task, in one way or another."""
    waiting = asyncio.create_task(untidy(cancel_with_parent)("it"))
    await leave.wait()
    if how == "returns":
        return "done"
    if how == "fails":
        raise LookupError("wrong")
    await waiting
    return "not reached"


@pytest.mark.parametrize("how", ["returns", "fails", "is cancelled", "is forced", "is late"])
async def test_an_awaited_child_ends_with_its_parent_however_that(app: App, how: str) -> None:
    async with app, app.worker():
        deadline = "1s" if how == "is late" else None
        run = await app.start(end_beside.options(deadline=deadline), how, None)
        child = await until_started(app, "child")
        await until_state(child, "waiting")
        if how in ("is cancelled", "is forced"):
            await run.cancel(force=how == "is forced")
        elif how != "is late":
            await run.signal(leave, 1)

        await until_state(child, "cancelled")
        assert await why(child) == ENDED_WITH_ITS_PARENT
        assert "tell" in [row.name for row in await child.history()]
        await until_state(run, "succeeded", "failed", "cancelled", "timed_out")
        await until_idle(app)


async def test_a_child_that_is_not_cancelled_with_its_parent_outlives_the_run_that_awaited_it(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(end_beside, "returns", False)
        child = await until_started(app, "child")
        await run.signal(leave, 1)

        assert await run.result(timeout="60s") == "done"
        await until_idle(app)
        await child.signal(hint, 3)
        assert await child.result(timeout="60s") == 3


@workflow
async def start_and_end(how: str, cancel_with_parent: bool) -> str:
    await onward.start(untidy(cancel_with_parent), "it")
    await leave.wait()
    if how == "fails":
        raise LookupError("wrong")
    return "done"


@pytest.mark.parametrize("how", ["returns", "fails", "is cancelled", "is forced", "is replayed"])
async def test_a_started_run_that_is_cancelled_with_its_parent_ends_with_its_parent(
    app: App, url: str, how: str
) -> None:
    async with app:
        async with app.worker():
            run = await app.start(start_and_end, how, True)
            child = await until_started(app, "child")
            await until_state(child, "waiting")
            await until_open(run, "leave")
        async with app.worker():  # the body is not in memory any more
            if how in ("is cancelled", "is forced"):
                await run.cancel(force=how == "is forced")
            else:
                await run.signal(leave, 1)

            await until_state(child, "cancelled")
            assert await why(child) == ENDED_WITH_ITS_PARENT
            await until_idle(app)


# --- a body that waits no more --------------------------------------------------------------------


@workflow
async def lose_patience() -> str:
    try:
        async with asyncio.timeout(0.02):
            await untidy(None)("it")
    except TimeoutError:
        await leave.wait()
    return "went on"


@workflow
async def lose_sibling() -> str:
    async def fail() -> None:
        await onward.sleep("20ms")
        raise LookupError("wrong")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(untidy(None)("it"))
            group.create_task(fail())
    except* LookupError:
        await leave.wait()
    return "went on"


@workflow
async def cancel_task() -> str:
    waiting = asyncio.create_task(untidy(None)("it"))
    await onward.sleep("20ms")
    waiting.cancel()
    await leave.wait()
    return "went on"


@pytest.mark.parametrize("way", [lose_patience, lose_sibling, cancel_task])
async def test_a_child_that_is_no_longer_awaited_is_cancelled(
    app: App, way: onward.Workflow[[], str]
) -> None:
    async with app, app.worker(slots=1):
        run = await app.start(way)
        child = await until_started(app, "child")

        await until_state(child, "cancelled")
        assert await why(child) == ENDED_WITH_ITS_PARENT
        await run.signal(leave, 1)
        assert await run.result(timeout="60s") == "went on"
        await until_idle(app)


@workflow
async def change_its_mind() -> str:
    waiting = asyncio.create_task(linger("never begun"))
    named = asyncio.create_task(untidy(None)("never begun"))
    await asyncio.sleep(0)
    waiting.cancel()
    named.cancel()
    await tell("now")
    return "went on"


async def test_a_child_that_is_given_up_before_it_was_started_does_no_harm(app: App) -> None:
    async with app, app.worker():
        run = await app.start(change_its_mind)

        assert await run.result(timeout="60s") == "went on"
        await until_idle(app)
        assert {row.state for row in await children_of(app, run)} <= {"cancelled"}


@workflow
async def stop_waiting() -> str:
    try:
        async with asyncio.timeout(0.02):
            await linger.options(id="child", queue="unserved")("it")
    except TimeoutError:
        return "went on"
    return "not reached"


async def test_a_child_that_never_began_is_cancelled_without_a_worker_of_its_own(app: App) -> None:
    async with app, app.worker():
        assert await app.run(stop_waiting) == "went on"
        child = await app.get("child")
        await until_cancel_arrived(app, child)
        async with app.worker(queues=["unserved"]):
            await until_state(child, "cancelled")
        assert await child.history() == []
        await until_idle(app)


async def until_cancel_arrived(app: App, child: Run[Any]) -> None:
    async def holds() -> bool:
        over = await child.state() == "cancelled"
        return over or bool((await app._store.look([child.uid]))[child.uid])

    await until(holds)


# --- families -------------------------------------------------------------------------------------


@workflow
async def grow(depth: int) -> int:
    if depth:
        return await grow.options(id=f"depth {depth}")(depth - 1)
    return await linger.options(id="deepest")("it")


async def test_a_whole_family_ends_with_its_root(app: App) -> None:
    async with app, app.worker(slots=1):
        run = await app.start(grow, 4)
        deepest = await until_started(app, "deepest")
        await until_state(deepest, "waiting")

        await run.cancel()

        await until_state(deepest, "cancelled")
        await until_idle(app)
        assert await app.counts() == {"cancelled": 6}


@workflow
async def go_on_for_ever(n: int) -> int:
    try:
        await hint.wait(timeout="30ms")
    except TimeoutError:
        onward.continue_as_new(n + 1)
    return n


@workflow
async def wait_for_round_trip() -> str:
    try:
        await go_on_for_ever.options(id="rounds")(0)
    except RunCancelled as cancelled:
        return f"{cancelled.state} {cancelled.reason}"
    return "not reached"


async def test_a_child_that_went_on_as_a_new_run_is_still_cancelled_with_its_parent(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(wait_for_round_trip)
        first = await until_started(app, "rounds")

        async def has_gone_on() -> bool:
            return (await app.get("rounds")).uid != first.uid

        await until(has_gone_on)
        await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await until_state(await app.get("rounds"), "cancelled")
        await until_idle(app)


@step(retry=Retry(attempts=1))
async def always_wrong() -> None:
    raise LookupError("always")


@workflow
async def never_well() -> None:
    await always_wrong()


@workflow
async def wait_for_retries() -> str:
    await never_well.options(id="retried", retry=Retry(attempts=9, delay="1h", max_delay="1h"))()
    return "not reached"


async def test_a_child_that_waits_to_be_retried_is_still_cancelled_with_its_parent(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(wait_for_retries)
        await until_started(app, "retried")

        async def is_to_be_retried() -> bool:
            return (await (await app.get("retried")).info()).attempt == 2

        await until(is_to_be_retried)
        await run.cancel()

        await until_state(await app.get("retried"), "cancelled")
        await until_idle(app)


@workflow
async def clean_up_with_a_child() -> str:
    try:
        await hint.wait()
    finally:
        await say_goodbye.options(id="goodbye")()
    return "not reached"


@workflow
async def say_goodbye() -> str:
    return await tell("goodbye")


async def test_a_cancelled_run_may_clean_up_with_a_child(app: App) -> None:
    async with app, app.worker():
        run = await app.start(clean_up_with_a_child)
        await until_state(run, "waiting")
        await run.cancel()

        await until_state(run, "cancelled")
        assert await (await app.get("goodbye")).result(timeout="60s") == "goodbye"
        await until_idle(app)
