"""`except ValueError` means the same in a unit test, in a run, and in every replay of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, StepFailed, step, workflow
from onward.errors import RunFailed
from tests.kit.deploys import SECONDS, waits_for
from tests.kit.watching import check_database, until_state

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ONCE = Retry(attempts=1)
TWICE = Retry(attempts=2, delay="1ms", jitter=0)

go = Signal("go", str)
tried: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_tried() -> None:
    tried.clear()


class OutOfStock(LookupError):
    """Neither built in nor registered."""


@step(retry=TWICE)
async def parse(text: str) -> int:
    tried.append(text)
    if text == "out":
        raise OutOfStock("no tea")
    try:
        return int(text)
    except ValueError as error:
        error.add_note(f"it was {text}")
        raise


@step(retry=ONCE)
def read(path: str) -> str:
    with open(path) as file:
        return file.read()


@step(retry=ONCE)
def take_first(items: list[int]) -> int:
    return next(iter(items))


@workflow
async def parse_in_a_child(text: str) -> int:
    return await parse(text)


@workflow
async def parse_below(text: str) -> int:
    return await parse_in_a_child(text)


async def by_map(text: str) -> int:
    [number] = await parse.map([text])
    return number


async def by_start(text: str) -> int:
    return await (await onward.start(parse_in_a_child, text)).result()


async def in_a_branch(text: str) -> int:
    task = asyncio.create_task(parse(text))
    return await task


WAYS: dict[str, Callable[[str], Awaitable[int]]] = {
    "step": parse,
    "routed step": parse.options(queue="other"),
    "child": parse_in_a_child,
    "grandchild": parse_below,
    "start": by_start,
    "map": by_map,
    "branch": in_a_branch,
}


@workflow
async def caught(way: str, text: str) -> str:
    try:
        return str(await WAYS[way](text))
    except ValueError as error:
        told = f"not a number: {error} {error.__notes__[0]}"
    except LookupError as error:
        told = f"nothing there: {error}"
    return f"{told}, {await go.wait()}"


NOT_A_NUMBER = "not a number: invalid literal for int() with base 10: 'seven' it was seven, gone"


@pytest.mark.parametrize("way", WAYS)
async def test_a_built_in_error_is_caught_in_a_run_and_when_it_is_replayed(
    memory: App, way: str
) -> None:
    async with memory:
        async with memory.worker(queues=["default", "other"]):
            run = await memory.start(caught, way, "seven")
            await waits_for(run, "go")
        async with memory.worker(queues=["default", "other"]):
            await run.signal(go, "gone")
            assert await run.result(timeout=SECONDS) == NOT_A_NUMBER
        await check_database(memory)
    assert tried == ["seven", "seven"]


async def test_a_built_in_error_is_caught_outside_of_runs() -> None:
    with pytest.raises(ValueError, match="invalid literal") as failed:
        await parse("seven")
    assert failed.value.__notes__ == ["it was seven"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_unregistered_error_is_caught_by_its_built_in_base(memory: App, way: str) -> None:
    async with memory, memory.worker(queues=["default", "other"]):
        run = await memory.start(caught, way, "out")
        await run.signal(go, "gone")

        assert "OutOfStock: no tea" in await run.result(timeout=SECONDS)


async def test_a_run_that_caught_an_error_is_paused_forked_and_continues(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(caught.options(id="first"), "step", "seven")
        await waits_for(run, "go")
        await memory.pause("first")
        await until_state(run, "paused")
        forked = await memory.fork("first", new_id="second")
        again = await memory.fork("first", "parse", new_id="third")
        await memory.resume("first")
        for each in (run, forked, again):
            await each.signal(go, "gone")

        for each in (run, forked, again):
            assert await each.result(timeout=SECONDS) == NOT_A_NUMBER
    assert tried == ["seven"] * 4


@workflow
async def rounds(n: int) -> str:
    try:
        await parse(f"round {n}")
    except ValueError as error:
        if n < 3:
            onward.continue_as_new(n + 1)
        return str(error)
    return "not reached"


async def test_every_round_of_a_continued_run_catches_its_own_error(memory: App) -> None:
    async with memory, memory.worker():
        assert "'round 3'" in await memory.run(rounds, 1)


@workflow
async def lets_out(text: str) -> int:
    return await parse(text)


async def test_a_retried_run_fails_with_the_same_error_again(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(lets_out.options(id="twice"), "seven")
        for _ in range(2):
            with pytest.raises(ValueError, match="invalid literal") as failed:
                await run.result(timeout=SECONDS)
            assert type(failed.value.__cause__) is ValueError
            assert failed.value.__cause__.__notes__ == ["it was seven"]
            run = await memory.retry("twice")


# --- attributes -----------------------------------------------------------------------------------


@workflow
async def reads() -> list[Any]:
    try:
        return [await read("/no/such/file")]
    except OSError as error:
        return [type(error).__name__, error.errno, error.strerror, error.filename]


async def test_an_os_error_has_its_number_and_file(memory: App) -> None:
    plain = await reads()
    async with memory, memory.worker():
        assert await memory.run(reads) == plain


@workflow
async def takes_none() -> str:
    try:
        return str(await take_first([]))
    except RuntimeError as error:
        return f"{error} {error.__cause__!r}"


async def test_a_stop_iteration_is_what_a_coroutine_makes_of_it(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(takes_none) == "coroutine raised StopIteration StopIteration()"


# --- what clients get -----------------------------------------------------------------------------


@workflow
async def fails_itself(how: str) -> None:
    match how:
        case "value":
            raise ValueError("no tea") from KeyError("tea")
        case "derived":
            raise OutOfStock("no tea")
        case "late":
            raise TimeoutError("the bank is slow")
        case "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(parse("seven"))
        case _:
            raise onward.Fatal("no")


async def failure(app: App, how: str) -> RunFailed:
    with pytest.raises(RunFailed) as failed:
        await app.run(fails_itself, how)
    return failed.value


async def test_a_failed_run_raises_what_its_workflow_raised_as_the_cause(memory: App) -> None:
    async with memory, memory.worker():
        failed = await failure(memory, "value")

        assert isinstance(failed, ValueError)
        assert repr(failed.__cause__) == "ValueError('no tea')"
        assert failed.__cause__ is not None
        assert repr(failed.__cause__.__cause__) == "KeyError('tea')"
        assert "failed (logic): ValueError: no tea. See" in str(failed)


async def test_a_failed_run_is_caught_by_the_built_in_base_of_its_error(memory: App) -> None:
    async with memory, memory.worker():
        failed = await failure(memory, "derived")

        assert isinstance(failed, LookupError)
        assert isinstance(failed.__cause__, StepFailed)
        assert failed.__cause__.is_a("OutOfStock")


@workflow
async def fails_below(how: str) -> None:
    await fails_itself(how)


@workflow
async def catches_fatal(*, below: bool) -> str:
    try:
        await (fails_below if below else fails_itself)("fatal")
    except onward.Fatal as failed:
        return type(failed).__name__
    return "not reached"


@pytest.mark.parametrize("below", [False, True])
async def test_fatal_is_caught_where_a_child_has_raised_it(memory: App, below: bool) -> None:
    async with memory, memory.worker():
        assert await memory.run(catches_fatal, below=below) == "RunFailed"


@pytest.mark.parametrize(("how", "base"), [("derived", LookupError), ("fatal", onward.Fatal)])
async def test_the_failure_of_a_grandchild_is_caught_by_its_base(
    memory: App, how: str, base: type[Exception]
) -> None:
    async with memory, memory.worker():
        with pytest.raises(RunFailed) as failed:
            await memory.run(fails_below, how)

    assert isinstance(failed.value, base)
    inner = failed.value.__cause__
    assert type(inner) is RunFailed
    assert isinstance(inner.__cause__, StepFailed)
    assert str(failed.value).count("See its history") == 1


async def test_the_timeout_of_a_run_is_not_that_of_the_caller(memory: App) -> None:
    async with memory, memory.worker():
        failed = await failure(memory, "late")

        assert not isinstance(failed, TimeoutError)
        assert repr(failed.__cause__) == "TimeoutError('the bank is slow')"


async def test_the_error_of_a_task_group_says_what_happened_in_it(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(fails_itself, "group")
        with pytest.raises(RunFailed, match="ValueError: invalid literal") as failed:
            await run.result(timeout=SECONDS)

        assert "TaskGroup" not in str(failed.value)
        assert (await run.info()).error == (
            "ValueError: invalid literal for int() with base 10: 'seven'"
        )


@workflow
async def calls_out() -> None:
    async with asyncio.TaskGroup() as group:  # as httpx and other clients do
        group.create_task(asyncio.open_connection("127.0.0.1", 1))


async def test_a_client_that_connects_in_a_body_is_refused_in_plain_words(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(calls_out)
        with pytest.raises(RunFailed, match="in a workflow body reaches outside the run"):
            await run.result(timeout=SECONDS)

        told = (await run.info()).error or ""
        assert told.startswith("loop.create_connection in a workflow body reaches outside the run")
