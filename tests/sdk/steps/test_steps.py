"""Steps: recorded once, tried again, limited in time, and apart from the body that asks."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from onward import App, Fatal, Retry, Retryable, StepFailed, register_error, step, workflow
from onward.errors import RunFailed

QUICK = Retry(attempts=3, delay="1ms", jitter=0)


@register_error
class OutOfStock(Exception):
    """A registered error."""


class Calls:
    """Counts what happened outside; a test resets it."""

    made: list[object] = []  # noqa: RUF012 - the tests of a file run one after the other


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    Calls.made.clear()


@step(retry=QUICK)
async def flaky(fails: int) -> int:
    Calls.made.append(1)
    if len(Calls.made) <= fails:
        raise ConnectionError("try again")
    return len(Calls.made)


@step(retry=QUICK)
async def hopeless() -> None:
    Calls.made.append(1)
    raise Fatal("never mind")


@step(retry=QUICK)
async def later(after: str) -> int:
    Calls.made.append(1)
    if len(Calls.made) == 1:
        raise Retryable("soon", after=after)
    return len(Calls.made)


@step(retry=Retry(attempts=1))
async def sell(item: str) -> None:
    raise OutOfStock(item)


@step
def in_a_thread() -> str:
    return threading.current_thread().name


@step(retry=Retry(attempts=2, delay="1ms"), timeout="20ms")
async def slow() -> None:
    Calls.made.append(1)
    await asyncio.Event().wait()


@step
async def spoil(items: list[str]) -> int:
    items.append("spoilt")
    return len(items)


@step
async def price(item: str) -> int:
    Calls.made.append(item)
    return len(item)


class Shop:
    """Steps may be methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    @step
    async def greet(self, whom: str) -> str:
        return f"{self.name} greets {whom}"


@workflow
async def one_flaky(fails: int) -> int:
    return await flaky(fails)


@workflow
async def one_hopeless() -> str:
    try:
        await hopeless()
    except StepFailed as failed:
        return failed.type
    return "no error"


@workflow
async def one_later(after: str) -> int:
    return await later(after)


@workflow
async def sale(item: str) -> str:
    try:
        await sell(item)
    except OutOfStock as error:
        return f"no {error.args[0]}"
    return "sold"


@workflow
async def threaded() -> str:
    return await in_a_thread()


@workflow
async def too_slow() -> None:
    await slow()


@workflow
async def safe() -> list[str]:
    items = ["fresh"]
    await spoil(items)
    return items


@workflow
async def keyed(first: str, second: str) -> list[int]:
    return [await price.options(key="a")(first), await price.options(key="a")(second)]


@workflow
async def visit(whom: str) -> str:
    return await Shop("Ada").greet(whom)


async def test_a_step_is_tried_until_it_succeeds_and_every_attempt_is_in_history(app: App) -> None:
    async with app, app.worker():
        run = await app.start(one_flaky, 2)

        assert await run.result(timeout="60s") == 3
        attempts = sorted((row.attempt, row.state) for row in await run.history())
        assert attempts == [(1, "failed"), (2, "failed"), (3, "succeeded")]


async def test_a_step_that_keeps_failing_is_given_up(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="ConnectionError: try again"):
            await app.run(one_flaky, 99)
        assert len(Calls.made) == 3


async def test_a_fatal_error_is_not_tried_again(app: App) -> None:
    async with app, app.worker():
        assert await app.run(one_hopeless) == "onward.errors.Fatal"
        assert len(Calls.made) == 1


async def test_a_step_says_when_it_wants_to_be_tried_again(app: App) -> None:
    async with app, app.worker():
        run = await app.start(one_later, "120ms")

        assert await run.result(timeout="60s") == 2
        [failed] = [row for row in await run.history() if row.state == "failed"]
        assert failed.due is not None
        assert failed.closed_at is not None
        assert failed.due - failed.closed_at == timedelta(milliseconds=120)


async def test_a_step_that_asks_for_an_impossible_wait_fails_and_says_so(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="'tomorrow' is not a valid duration"):
            await app.run(one_later, "tomorrow")


async def test_a_registered_error_comes_back_as_itself(app: App) -> None:
    async with app, app.worker():
        assert await app.run(sale, "tea") == "no tea"


async def test_a_step_that_is_not_async_runs_in_a_thread(app: App) -> None:
    async with app, app.worker():
        assert (await app.run(threaded)).startswith("onward-step")


async def test_a_step_that_takes_too_long_fails_and_is_tried_again(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="took longer than 20ms"):
            await app.run(too_slow)
        assert len(Calls.made) == 2


async def test_a_step_cannot_change_what_the_body_holds(app: App) -> None:
    async with app, app.worker():
        assert await app.run(safe) == ["fresh"]


async def test_a_key_used_twice_with_equal_arguments_is_one_call(app: App) -> None:
    async with app, app.worker():
        assert await app.run(keyed, "tea", "tea") == [3, 3]
        assert Calls.made == ["tea"]


async def test_a_key_used_twice_with_other_arguments_is_an_error(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="different arguments"):
            await app.run(keyed, "tea", "coffee")


async def test_a_step_may_be_a_method(app: App) -> None:
    async with app, app.worker():
        assert await app.run(visit, "Bob") == "Ada greets Bob"


@workflow
async def too_long_a_key() -> int:
    return await price.options(key="=" * 500)("tea")


async def test_a_write_that_the_database_refuses_ends_that_run_alone(app: App) -> None:
    async with app, app.worker():
        refused = await app.start(too_long_a_key)

        with pytest.raises(RunFailed, match="a write was refused"):
            await refused.result(timeout="60s")
        assert (await refused.info()).reason == "internal"
        assert await app.run(visit, "Bob") == "Ada greets Bob"


async def test_outside_a_run_a_step_is_a_plain_call() -> None:
    assert await price("tea") == 3
    assert await Shop("Ada").greet("Bob") == "Ada greets Bob"
    assert await in_a_thread() == in_a_thread.fn() == threading.current_thread().name
