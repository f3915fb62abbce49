"""`onward.as_completed`: what ends first comes first, live and in every replay."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

import onward
from onward import Retry, Signal, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import children_of, until_idle, until_open

if TYPE_CHECKING:
    from onward import App
    from onward.engine.views import HistoryEvent

finish = Signal("finish", int)
order = random.Random(7)


@step
async def take_some_time(n: int) -> int:
    await asyncio.sleep(order.random() / 100)
    return n


@step(retry=Retry(attempts=1))
async def give_or_fail(n: int) -> int:
    if n % 2:
        raise LookupError(f"{n} is odd")
    return n


@workflow
async def doubled(n: int) -> int:
    return 2 * await take_some_time(n)


@workflow
async def as_they_end(count: int) -> list[list[int]]:
    """Say in which order calls ended, once before and once after the end of the body's memory."""
    steps = [await done async for done in onward.as_completed(map(take_some_time, range(count)))]
    runs = [await done async for done in onward.as_completed(map(doubled, range(count)))]
    await finish.wait()
    return [steps, runs]


async def test_the_order_is_the_same_live_and_on_replay(app: App) -> None:
    async with app, app.worker(warm=0):
        runs = [await app.start(as_they_end, 8) for _ in range(4)]
        for run in runs:
            await until_open(run, "finish")
            recorded = [row for row in await run.history() if row.seq is not None]
            await run.signal(finish, 1)

            steps, children = await run.result(timeout="60s")

            # What it saw when it was replayed at last is what history has from the first time.
            assert steps == order_of(recorded, "take_some_time")
            assert children == [2 * n for n in order_of(recorded, "doubled")]
            assert sorted(steps) == list(range(8))
        await until_idle(app)


def order_of(recorded: list[HistoryEvent], name: str) -> list[int]:
    """Return the numbers of the branches in which a call of that name ended, in order."""
    first = 0 if name == "take_some_time" else 8
    identities = [row.identity for row in recorded if row.name == name]
    return [int(identity.partition(":")[0]) - first for identity in identities]


@workflow
async def with_errors() -> list[str]:
    found = []
    async for done in onward.as_completed([give_or_fail(n) for n in range(4)]):
        try:
            found.append(str(await done))
        except Exception as error:  # noqa: BLE001 - every error is returned
            found.append(repr(error))
    return sorted(found)


async def test_an_error_is_raised_where_its_call_is_awaited(app: App) -> None:
    async with app, app.worker():
        found = await app.run(with_errors)
        assert found == ["0", "2", "LookupError('1 is odd')", "LookupError('3 is odd')"]


@workflow
async def over_tasks() -> list[int]:
    async def branch(n: int) -> int:
        return await take_some_time(n) + await take_some_time(10 * n)

    tasks = {asyncio.create_task(branch(n)): n for n in range(5)}
    found = []
    async for done in onward.as_completed(tasks):
        assert isinstance(done, asyncio.Task)
        assert await done == 11 * tasks[done]
        found.append(tasks[done])
    return sorted(found)


async def test_tasks_come_back_as_themselves(app: App) -> None:
    async with app, app.worker(warm=0):
        assert await app.run(over_tasks) == [0, 1, 2, 3, 4]


@workflow
async def ending_together() -> list[int]:
    async def at_the_same_time(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    calls = [at_the_same_time(n) for n in range(6)]
    return [await done async for done in onward.as_completed(calls)]


async def test_those_that_end_together_come_in_the_order_given(app: App) -> None:
    async with app, app.worker(warm=0):
        assert await app.run(ending_together) == list(range(6))


@workflow
async def one_within_another() -> list[list[int]]:
    async def inner(n: int) -> list[int]:
        calls = [take_some_time(10 * n + i) for i in range(3)]
        return sorted([await done async for done in onward.as_completed(calls)])

    return sorted([await done async for done in onward.as_completed(map(inner, range(3)))])


async def test_one_may_stand_within_another(app: App) -> None:
    async with app, app.worker(warm=0):
        assert await app.run(one_within_another) == [[0, 1, 2], [10, 11, 12], [20, 21, 22]]


@workflow
async def first_of(count: int) -> int:
    tasks = [asyncio.create_task(doubled(n)) for n in range(1, count + 1)]
    async for done in onward.as_completed(tasks):
        for task in tasks:
            task.cancel()
        return await done
    return 0


async def test_the_first_may_be_all_that_is_wanted(app: App) -> None:
    async with app, app.worker():
        run = await app.start(first_of, 4)

        assert await run.result(timeout="60s") in (2, 4, 6, 8)
        await until_idle(app)
        states = [child.state for child in await children_of(app, run)]
        assert set(states) <= {"succeeded", "cancelled"}


@workflow
async def none_at_all() -> int:
    nothing: list[asyncio.Future[int]] = []
    return len([done async for done in onward.as_completed(nothing)])


async def test_nothing_gives_nothing(app: App) -> None:
    async with app, app.worker():
        assert await app.run(none_at_all) == 0


@workflow
async def let_error_out() -> None:
    async for done in onward.as_completed([give_or_fail(1), take_some_time(2)]):
        await done


async def test_an_error_that_is_let_out_fails_the_run(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="1 is odd"):
            await app.run(let_error_out)
        await until_idle(app)


async def test_it_works_outside_a_run_as_well() -> None:
    calls = [take_some_time(n) for n in range(3)]
    assert sorted([await done async for done in onward.as_completed(calls)]) == [0, 1, 2]
