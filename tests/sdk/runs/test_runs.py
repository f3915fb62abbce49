"""Runs: started once, their results, how they are found and counted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onward
from onward import App, step, workflow
from onward.errors import BadInput, Conflict, NotFound, RunFailed


@step
async def add(one: int, other: int) -> int:
    return one + other


@workflow
async def total(numbers: list[int]) -> int:
    found = 0
    for number in numbers:
        found = await add(found, number)
    return found


@workflow
async def echo(value: Any) -> Any:
    return value


@workflow
async def fail() -> None:
    raise LookupError("no such thing")


@workflow
async def unfit() -> Any:
    return {"when": object()}


async def test_a_run_returns_its_result(app: App) -> None:
    async with app, app.worker():
        assert await app.run(total, [1, 2, 3]) == 6


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
async def test_a_falsy_result_is_a_result(app: App, value: object) -> None:
    async with app, app.worker():
        run = await app.start(echo, value)
        assert await run.result(timeout="60s") == value
        assert await run.state() == "succeeded"


async def test_starting_an_id_twice_starts_it_once(app: App) -> None:
    async with app, app.worker():
        first = await app.start(total.options(id="sum"), [1, 2])
        second = await app.start(total.options(id="sum"), [1, 2])

        assert first.uid == second.uid
        assert await second.result(timeout="60s") == 3
        assert len(await app.runs()) == 1


async def test_an_id_with_other_arguments_is_a_conflict(app: App) -> None:
    async with app:
        await app.start(total.options(id="sum"), [1, 2])

        with pytest.raises(Conflict, match="different arguments"):
            await app.start(total.options(id="sum"), [1, 3])
        with pytest.raises(Conflict, match="a different workflow"):
            await app.start(echo.options(id="sum"), 1)


async def test_a_conflict_can_be_asked_for(app: App) -> None:
    async with app:
        await app.start(total.options(id="sum"), [1, 2])

        with pytest.raises(Conflict, match="the run with this id is ready"):
            await app.start(total.options(id="sum", on_conflict="reject"), [1, 2])


async def test_a_hundred_starts_of_one_id_at_once_start_it_once(app: App) -> None:
    async with app:
        runs = await asyncio.gather(*(app.start(total.options(id="one"), [1]) for _ in range(100)))

        assert len({run.uid for run in runs}) == 1


async def test_what_a_run_raised_is_the_cause_of_its_failure(app: App) -> None:
    async with app, app.worker():
        run = await app.start(fail)

        with pytest.raises(RunFailed, match="no such thing") as failed:
            await run.result(timeout="60s")
        assert repr(failed.value.__cause__) == "LookupError('no such thing')"
        assert isinstance(failed.value, LookupError)
        assert (await run.info()).reason == "logic"


async def test_a_result_that_cannot_be_kept_fails_the_run_with_the_path_to_it(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match=r"unfit\(\)\.when"):
            await app.run(unfit)


async def test_waiting_for_a_result_ends_in_time(app: App) -> None:
    async with app:
        run = await app.start(total, [1])

        with pytest.raises(TimeoutError):
            await run.result(timeout="10ms")
        assert await run.state() == "ready"


async def test_a_run_is_found_again_by_its_id(app: App) -> None:
    async with app, app.worker():
        await app.start(total.options(id="sum"), [4, 5])

        assert await (await app.get("sum")).result(timeout="60s") == 9
        with pytest.raises(NotFound, match="'difference'"):
            await app.get("difference")


async def test_runs_are_listed_newest_first_by_pages_and_filters(app: App) -> None:
    async with app, app.worker():
        for number in range(5):
            await (await app.start(total.options(id=f"sum-{number}"), [number])).result()
        await app.start(echo.options(id="later", queue="other"), 1)

        listed = await app.runs(limit=4)
        assert [info.id for info in listed] == ["later", "sum-4", "sum-3", "sum-2"]
        more = await app.runs(limit=4, before=listed[-1].uid)
        assert [info.id for info in more] == ["sum-1", "sum-0"]
        assert [info.id for info in await app.runs(queue="other")] == ["later"]
        assert len(await app.runs(name="total", state="succeeded")) == 5
        assert await app.counts() == {"ready": 1, "succeeded": 5}


async def test_a_delayed_run_waits_for_its_time(app: App) -> None:
    async with app, app.worker():
        run = await app.start(echo.options(delay="1h"), 1)
        soon = await app.start(echo.options(delay="50ms"), 2)

        assert await soon.result(timeout="60s") == 2
        info = await run.info()
        assert info.state == "waiting"
        assert info.due is not None
        assert (info.due - info.created_at).total_seconds() == 3600


@pytest.mark.parametrize("bad", ["", "a\0b", "a\nb", "x" * 5000, "\ud800"])
async def test_a_bad_id_is_refused_at_the_call(app: App, bad: str) -> None:
    async with app:
        with pytest.raises(BadInput):
            await app.start(echo.options(id=bad), 1)
        assert await app.runs() == []


def deep(depth: int) -> list[object]:
    nested: list[object] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@pytest.mark.parametrize("bad", [float("nan"), 2**70, lambda: 1, "\ud800", {1, 2}, deep(10_000)])
async def test_a_value_that_cannot_be_kept_is_refused_at_the_call(app: App, bad: object) -> None:
    async with app:
        with pytest.raises(onward.errors.Unencodable, match=r"echo\("):
            await app.start(echo, bad)
        assert await app.runs() == []


async def test_too_large_a_value_is_refused_at_the_call(app: App) -> None:
    async with app:
        with pytest.raises(onward.errors.PayloadTooLarge):
            await app.start(echo, "x" * 3 * 1024 * 1024)
        assert await app.runs() == []


async def test_wrong_arguments_are_an_ordinary_type_error(app: App) -> None:
    async with app:
        with pytest.raises(TypeError, match="total"):
            await app.start(total)  # type: ignore[call-arg] # that is the test


async def test_a_queue_may_have_spaces_in_its_name(app: App) -> None:
    async with app, app.worker(queues=["night shift", "day shift"]):
        assert await app.run(echo.options(queue="night shift"), 1) == 1
        assert await app._store.served_queues() == {"night shift", "day shift"}


async def test_a_look_at_a_result_takes_no_time(app: App) -> None:
    async with app:
        run = await app.start(echo, 8)
        with pytest.raises(TimeoutError):
            await run.result(timeout=0)
        async with app.worker():
            await run.result(timeout="30s")
        assert await run.result(timeout=0) == 8


@workflow
async def fail_together() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fail.fn())


async def test_errors_of_a_task_group_are_the_cause_of_one_failure(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(
            RunFailed, match=r"failed \(logic\): LookupError: no such thing\."
        ) as failed:
            await app.run(fail_together)
    cause = failed.value.__cause__
    assert isinstance(cause, ExceptionGroup)
    assert [repr(error) for error in cause.exceptions] == ["LookupError('no such thing')"]
