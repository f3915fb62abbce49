"""Runs that a body starts and does not wait for, until it asks for their results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, Signal, step, workflow
from onward.errors import BadInput, Conflict, NotInBody, RunCancelled
from tests.kit.watching import (
    children_of,
    info_of,
    until,
    until_idle,
    until_open,
    until_started,
    until_state,
)

if TYPE_CHECKING:
    from onward import App
    from onward.handles import ChildRun

nod = Signal("nod", int)
proceed = Signal("proceed", int)
SOON = Retry(attempts=3, delay="1ms")

made: dict[str, int] = {}


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


@step(retry=Retry(attempts=1))
async def stumble(name: str) -> str:
    made[name] = made.get(name, 0) + 1
    if made[name] == 1:
        raise LookupError("at first")
    return name


@workflow
async def give(value: Any) -> Any:
    made["given"] = made.get("given", 0) + 1
    return value


@workflow
async def await_nod(extra: int) -> int:
    return extra + await nod.wait()


@workflow
async def blow_up() -> None:
    raise LookupError("it blew up")


@workflow
async def start_one() -> list[str]:
    child = await onward.start(await_nod.options(id="nodder"), 1)
    return [child.id, child.uid, repr(child)]


async def test_a_started_run_has_ids_and_outlives_the_run_that_started_it(app: App) -> None:
    async with app, app.worker():
        run = await app.start(start_one)
        found = await run.result(timeout="60s")

        child = await app.get("nodder")
        assert found == ["nodder", child.uid, "<child run nodder>"]
        await until_state(child, "waiting")
        await until_idle(app)
        await child.signal(nod, 2)
        assert await child.result(timeout="60s") == 3
        await until_idle(app)


@workflow
async def wait_often(value: Any) -> list[Any]:
    child = await onward.start(give, value)
    first = await child.result()
    both = await asyncio.gather(child.result(), child.result())
    return [first, *both, await child.result()]


async def test_the_result_of_a_started_run_can_be_had_as_often_as_one_likes(app: App) -> None:
    async with app, app.worker():
        for value in (None, 0, [1]):
            assert await app.run(wait_often, value) == [value] * 4
        assert made == {"given": 3}
        await until_idle(app)


@workflow
async def wait_in_two_branches() -> list[int]:
    child = await onward.start(await_nod.options(id="asked twice"), 1)

    async def branch(extra: int) -> int:
        return extra + await child.result()

    return list(await asyncio.gather(branch(10), branch(20)))


async def test_two_branches_wait_for_one_started_run(app: App) -> None:
    async with app, app.worker():
        run = await app.start(wait_in_two_branches)
        await until_state(run, "waiting")
        await app.signal("asked twice", nod, 1)

        assert await run.result(timeout="60s") == [12, 22]
        await until_idle(app)


@workflow
async def wait_after_its_end() -> Any:
    child = await onward.start(give.options(id="long over"), "early")
    await proceed.wait()
    return await child.result()


async def test_a_result_that_came_before_it_was_asked_for_is_there(app: App) -> None:
    async with app, app.worker():
        run = await app.start(wait_after_its_end)
        await until_state(await until_started(app, "long over"), "succeeded")
        await run.signal(proceed, 1)

        assert await run.result(timeout="60s") == "early"
        await until_idle(app)


@workflow
async def give_up_and_wait_again() -> list[Any]:
    child = await onward.start(await_nod.options(id="slow"), 1)
    given_up = False
    try:
        async with asyncio.timeout(0.02):
            await child.result()
    except TimeoutError:
        given_up = True
    return [given_up, await proceed.wait(), await child.result()]


async def test_a_started_run_continues_while_it_is_not_awaited(app: App) -> None:
    async with app, app.worker():
        run = await app.start(give_up_and_wait_again)
        await until_open(run, "proceed")
        await run.signal(proceed, 5)
        await app.signal("slow", nod, 1)

        assert await run.result(timeout="60s") == [True, 5, 2]
        await until_idle(app)


@workflow
async def listen_in_rounds(n: int) -> int:
    child = await onward.start(await_nod.options(id=f"round {n}"), 1)
    try:
        async with asyncio.timeout(0.01):
            return await child.result()
    except TimeoutError:
        if n < 2:
            onward.continue_as_new(n + 1)
    return n


async def test_a_run_may_go_on_as_a_new_one_when_it_has_stopped_listening(app: App) -> None:
    async with app, app.worker():
        run = await app.start(listen_in_rounds, 0)
        assert await run.result(timeout="60s") == 2
        await until_idle(app)
        assert (await app.counts())["waiting"] == 3


@workflow
async def see_failures() -> list[str]:
    child = await onward.start(blow_up)
    found = []
    for _ in range(2):
        try:
            await child.result()
        except LookupError as failed:
            found.append(repr(failed))
    other = await onward.start(await_nod.options(id="to be cancelled"), 1)
    try:
        await other.result()
    except RunCancelled as cancelled:
        found.append(cancelled.state)
    return found


async def test_the_error_of_a_started_run_is_raised_every_time(app: App) -> None:
    async with app, app.worker():
        run = await app.start(see_failures)
        other = await until_started(app, "to be cancelled")
        await until_state(other, "waiting")
        await other.cancel()

        found = await run.result(timeout="60s")
        assert found[0] == found[1] == "LookupError('it blew up')"
        assert found[2] == "cancelled"
        await until_idle(app)


# --- ids ------------------------------------------------------------------------------------------


async def started(how: str) -> ChildRun[Any]:
    return await onward.start(give.options(id="shared", on_conflict=how), 1)  # type: ignore[arg-type] # a test of each


@workflow
async def start_shared(how: str) -> Any:
    try:
        child = await started(how)
    except Conflict as conflict:
        return f"conflict: {conflict.fact}"
    try:
        return await child.result()
    except BadInput as refused:
        return f"{child.id}: {refused}"


async def test_a_run_that_another_run_started_is_found_by_its_id_but_not_awaited(app: App) -> None:
    async with app, app.worker():
        await app.run(give.options(id="shared"), 1)

        assert "shared: run 'shared' was not started by this run" in await app.run(
            start_shared, "return"
        )
        assert made == {"given": 1}
        await until_idle(app)


async def test_an_id_that_is_taken_may_be_a_conflict(app: App) -> None:
    async with app, app.worker():
        await app.run(give.options(id="shared"), 1)
        assert (
            await app.run(start_shared, "reject") == "conflict: the run with this id has succeeded"
        )
        await until_idle(app)


async def test_an_id_with_other_arguments_is_a_conflict_in_a_body(app: App) -> None:
    async with app, app.worker():
        await app.run(give.options(id="shared"), 2)
        assert "different arguments" in await app.run(start_shared, "return")


@workflow
async def replace_nodder() -> Any:
    child = await onward.start(give.options(id="nodder", on_conflict="replace"), "new")
    return await child.result()


async def test_a_run_that_is_replaced_needs_no_slot_of_the_one_that_waits_for_it(app: App) -> None:
    async with app, app.worker(slots=1):
        old = await app.start(await_nod.options(id="nodder"), 1)
        await until_state(old, "waiting")

        run = await app.start(replace_nodder)

        assert await run.result(timeout="60s") == "new"
        assert (await info_of(app, old.uid)).state == "cancelled"
        await until_idle(app)


@workflow
async def refuse_to_end() -> None:
    try:
        await nod.wait()
    finally:
        await proceed.wait()


@workflow
async def replace_stubborn() -> Any:
    child = await onward.start(give.options(id="stubborn", on_conflict="replace"), "new")
    return await child.result()


async def test_a_worker_may_leave_while_a_run_waits_to_replace_another(app: App) -> None:
    async with app:
        async with asyncio.timeout(60), app.worker():
            old = await app.start(refuse_to_end.options(id="stubborn"))
            await until_state(old, "waiting")
            run = await app.start(replace_stubborn)
            await until_state(run, "waiting")
        async with app.worker():
            await app.signal(old.uid, proceed, 1)
            assert await run.result(timeout="60s") == "new"
            await until_idle(app)


# --- a parent that is retried ---------------------------------------------------------------------


@workflow
async def stumble_after_start(name: str) -> Any:
    child = await onward.start(await_nod.options(id=f"child of {name}"), 1)
    if name == "early":
        await proceed.wait()
    await stumble(name)
    return await child.result()


@pytest.mark.parametrize("name", ["early", "late"])
async def test_a_parent_that_is_retried_hears_of_the_run_that_it_started_before(
    app: App, name: str
) -> None:
    async with app, app.worker():
        run = await app.start(stumble_after_start.options(id=name, retry=SOON), name)
        child = await until_started(app, f"child of {name}")
        if name == "early":  # it is over before the first attempt is
            await child.signal(nod, 1)
            await until_state(child, "succeeded")
            await run.signal(proceed, 1)
        else:
            second = await second_attempt(app, name)
            await until_state(second, "waiting")
            await child.signal(nod, 1)

        assert await run.result(timeout="60s") == 2
        assert made == {name: 2}
        assert await children_of(app, await app.get(name)) == []
        await until_idle(app)


async def second_attempt(app: App, name: str) -> Any:
    async def holds() -> bool:
        return (await (await app.get(name)).info()).attempt == 2

    await until(holds)
    return await app.get(name)


# --- where it makes no sense ----------------------------------------------------------------------


@step
async def start_in_step() -> str:
    try:
        await onward.start(give, 1)
    except NotInBody as refused:
        return str(refused)
    return "started"


@workflow
async def step_starts_run() -> str:
    return await start_in_step()


async def test_a_step_starts_no_runs(app: App) -> None:
    async with app, app.worker():
        assert "was called in a step" in await app.run(step_starts_run)
        with pytest.raises(NotInBody, match=r"app\.start"):
            await onward.start(give, 1)


@workflow
async def start_unfit() -> str:
    try:
        await onward.start(give, object())
    except onward.errors.Unencodable as refused:
        return str(refused)
    return "started"


async def test_what_cannot_be_kept_starts_nothing(app: App) -> None:
    async with app, app.worker():
        run = await app.start(start_unfit)
        assert "give(value)" in await run.result(timeout="60s")
        assert await children_of(app, run) == []
