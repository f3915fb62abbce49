"""Runs within runs: any nesting comes to its end in one slot, cold or warm."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Signal, step, workflow
from tests.kit.watching import until, until_idle, until_open, until_started, until_state

if TYPE_CHECKING:
    from onward import App

bell = Signal("bell", int)


@step
async def raised_by_one(n: int) -> int:
    return n + 1


@step(queue="routed")
async def sent_away(n: int) -> int:
    return n + 100


@step(limit=1, name="one by one")
def one_by_one(n: int) -> int:
    return n + 1000


@workflow
async def leaf(n: int) -> int:
    return await raised_by_one(n)


@workflow
async def ringing(n: int) -> int:
    return n + await bell.wait()


@workflow
async def gather_of(width: int) -> int:
    return sum(await asyncio.gather(*(leaf(n) for n in range(width))))


@workflow
async def nested(depth: int) -> list[int]:
    """Have a child that has a child that has a child; steps and sleeps on every floor."""
    before = await raised_by_one(depth)
    below = await nested(depth - 1) if depth else []
    await onward.sleep("1ms")
    return [before, *below, await raised_by_one(-depth)]


DEEP = [6, 5, 4, 3, 2, 1, 1, 0, -1, -2, -3, -4]


@pytest.mark.parametrize("warm", [0, 1000])
async def test_children_nest_five_deep_in_one_slot(app: App, warm: int) -> None:
    async with app, app.worker(slots=1, warm=warm):
        assert await app.run(nested, 5) == DEEP
        await until_idle(app)


@pytest.mark.parametrize(
    ("slots", "parents", "width"), [(1, 1, 5), (2, 2, 6), (6, 4, 12)], ids=["1x5", "2x6", "4x12"]
)
async def test_parents_that_gather_children_never_use_up_the_slots(
    app: App, slots: int, parents: int, width: int
) -> None:
    async with app, app.worker(slots=slots):
        runs = [await app.start(gather_of, width) for _ in range(parents)]
        for run in runs:
            assert await run.result(timeout="60s") == sum(range(1, width + 1))
        await until_idle(app)


async def test_parents_do_not_crowd_out_the_children_they_wait_for(app: App) -> None:
    async with app, app.worker(slots=2):
        runs = [await app.start(gather_of, 2) for _ in range(40)]
        assert [await run.result(timeout="60s") for run in runs] == [3] * 40
        await until_idle(app)


@workflow
async def everything_at_once() -> list[Any]:
    async def in_a_group() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gather_of(2)), group.create_task(leaf(10))]
        return [task.result() for task in tasks]

    started = await onward.start(leaf, 20)
    found = await asyncio.gather(
        in_a_group(),
        nested(1),
        raised_by_one.map([1, 2, 3]),
        leaf.map([1, 2], limit=1),
        asyncio.gather(sent_away(1), one_by_one(1), one_by_one(2)),
        ringing.options(id="ringing")(1),
        started.result(),
        asyncio.wait_for(leaf(30), 3600),
    )
    ended = [await done async for done in onward.as_completed([leaf(40), leaf(50)])]
    return [*found, sorted(ended)]


EVERYTHING = [
    [3, 11],
    [2, 1, 1, 0],
    [2, 3, 4],
    [2, 3],
    [101, 1001, 1002],
    8,
    21,
    31,
    [41, 51],
]


@pytest.mark.parametrize("warm", [0, 1000])
async def test_one_slot_suffices_for_everything_at_once(app: App, warm: int) -> None:
    async with app, app.worker(slots=1, warm=warm, queues=["default", "routed"]):
        run = await app.start(everything_at_once)
        await (await until_started(app, "ringing")).signal(bell, 7)

        assert await run.result(timeout="60s") == EVERYTHING
        await until_idle(app)


async def test_a_worker_leaves_while_a_parent_waits_for_a_child_that_only_it_would_run(
    app: App,
) -> None:
    async with app:
        async with asyncio.timeout(60), app.worker(slots=1):
            run = await app.start(family_of_ringing)
            await until_state(await until_started(app, "rung"), "waiting")
            await until_state(run, "waiting")
        assert await app.counts() == {"waiting": 2}
        async with app.worker(slots=1):
            await app.signal("rung", bell, 1)
            assert await run.result(timeout="60s") == [2]
            await until_idle(app)


@workflow
async def family_of_ringing() -> list[int]:
    return [await ringing.options(id="rung")(1)]


# --- when a child ends ----------------------------------------------------------------------------


async def test_a_child_ends_while_no_worker_has_its_parent(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(family_of_ringing)
            await until_state(await until_started(app, "rung"), "waiting")
            await until_open(run, "ringing")
        await app.signal("rung", bell, 4)
        async with app.worker(workflows=[ringing]):  # it does not know the parent
            await until_state(await app.get("rung"), "succeeded")
            assert await run.state() == "ready"
        async with app.worker():
            assert await run.result(timeout="60s") == [5]
            await until_idle(app)


async def test_a_signal_to_a_child_that_is_paused_with_its_parent_waits_for_the_resume(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(family_of_ringing.options(id="pausing"))
        await until_state(await until_started(app, "rung"), "waiting")
        await until_open(run, "ringing")
        await app.pause("pausing")
        await until_state(run, "paused")
        await until_state(await app.get("rung"), "paused")
        await app.signal("rung", bell, 4)

        await app.resume("pausing")

        assert await run.result(timeout="60s") == [5]
        await until_idle(app)


@workflow
async def many_short_children(count: int) -> int:
    """Park and be woken again and again, while children end in between."""

    async def one_after_another(n: int) -> int:
        return sum([await leaf(n) for _ in range(count)])

    return sum(await asyncio.gather(*(one_after_another(n) for n in range(4))))


@pytest.mark.parametrize("warm", [0, 1000])
async def test_children_that_end_while_their_parent_parks_or_is_claimed_are_all_heard(
    app: App, warm: int
) -> None:
    async with app, app.worker(warm=warm), app.worker(warm=warm):
        run = await app.start(many_short_children, 6)
        assert await run.result(timeout="60s") == 6 * (1 + 2 + 3 + 4)
        await until_idle(app)


@workflow
async def crowd(size: int) -> int:
    return sum(await asyncio.gather(*(leaf(n) for n in range(size))))


async def test_a_hundred_children_at_once(app: App) -> None:
    async with app, app.worker():
        assert await app.run(crowd, 100) == sum(range(1, 101))
        await until_idle(app)


async def test_a_run_that_waits_only_for_a_child_holds_no_slot(app: App) -> None:
    async with app, app.worker(slots=1) as worker:
        run = await app.start(family_of_ringing)
        await until_state(await until_started(app, "rung"), "waiting")

        async def is_free() -> bool:
            return not worker.running

        await until(is_free)
        assert await app.run(leaf, 1) == 2
        await app.signal("rung", bell, 1)
        assert await run.result(timeout="60s") == [2]
