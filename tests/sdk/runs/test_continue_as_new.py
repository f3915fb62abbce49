"""Runs that go on as new ones: what goes over, what is refused, what the first handle sees."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import Conflict, RunCancelled, RunFailed
from tests.kit.watching import FALSY, ends, info_of, until, until_state, working

item = Signal("item", int)
rounds: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _no_rounds() -> None:
    rounds.clear()


@step
async def round_done() -> None:
    rounds["done"] += 1


@workflow
async def count_up(n: int, most: int) -> int:
    if n < most:
        onward.continue_as_new(n + 1, most=most)
    return n


async def test_the_first_handle_gives_the_last_result(app: App) -> None:
    async with working(app):
        run = await app.start(count_up.options(id="up"), 0, 3)

        assert await run.result(timeout="60s") == 3
        info = await run.info()
        assert (info.state, info.link, info.attempt) == ("succeeded", "continued_from", 1)
        first = await info_of(app, run.uid)
        assert (first.state, first.reason) == ("succeeded", "continued")
        assert len(await app.runs()) == 4


@workflow
async def poll(n: int) -> None:
    await (item.wait() if n % 2 else onward.sleep(0))
    onward.continue_as_new(n + 1)


async def test_a_start_repeated_after_the_run_was_continued_is_the_same_start(app: App) -> None:
    async with working(app):
        first = await app.start(poll.options(id="p"), 0)
        await until_state(first, "waiting")

        again = await app.start(poll.options(id="p"), 0)

        assert again.uid == (await app.get("p")).uid != first.uid
        with pytest.raises(Conflict, match="the run with this id is waiting"):
            await app.start(poll.options(id="p", on_conflict="reject"), 0)
        with pytest.raises(Conflict, match="different arguments"):  # those of the newest
            await app.start(poll.options(id="p"), 1)
        replaced = await app.start(poll.options(id="p", on_conflict="replace"), 7)
        await until_state(replaced, "waiting")
        assert (await app.start(poll.options(id="p"), 7)).uid == replaced.uid
        with pytest.raises(Conflict, match="different arguments"):
            await app.start(poll.options(id="p"), 0)


async def test_a_run_goes_on_a_thousand_times(app: App, url: str) -> None:
    times = 60 if url.startswith("postgresql") else 1000  # it takes its time there
    async with working(app):
        run = await app.start(count_up, 0, times)

        assert await run.result(timeout="200s") == times


@workflow
async def wrong_turn(how: str) -> None:
    match how:
        case "too many":
            onward.continue_as_new(1, 2, 3)
        case "no data":
            onward.continue_as_new({object()})
        case "in a branch":
            task = asyncio.create_task(item.wait())
            await round_done()
            onward.continue_as_new(str(task.done()))
        case _:
            child = asyncio.create_task(endless_child())
            await round_done()
            onward.continue_as_new(str(child.done()))


@workflow
async def endless_child() -> None:
    await item.wait()


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("too many", "wrong_turn"),
        ("no data", "wrong_turn"),
        ("in a branch", "other branches of the run were still open"),
        ("with a child", "other branches of the run were still open"),
    ],
)
async def test_a_wrong_way_to_go_on_fails_the_run(app: App, how: str, says: str) -> None:
    async with working(app):
        run = await app.start(wrong_turn, how)
        with pytest.raises(RunFailed, match=says):
            await run.result(timeout="60s")

        async def nothing_is_left() -> bool:
            return all(info.finished_at is not None for info in await app.runs())

        await until(nothing_is_left)
        assert (await run.info()).uid == run.uid


@workflow
async def consume(total: int, left: int) -> int:
    total += await item.wait()
    if left > 1:
        onward.continue_as_new(total, left - 1)
    return total


async def test_unread_signals_go_over_in_order(app: App) -> None:
    async with app:
        run = await app.start(digits.options(id="d"), 0, 5)
        for number in range(1, 6):
            await run.signal(item, number)
        async with working(app):
            assert await run.result(timeout="60s") == 12345


@workflow
async def digits(total: int, left: int) -> int:
    total = 10 * total + await item.wait()
    if left > 1:
        onward.continue_as_new(total, left - 1)
    return total


async def test_signals_that_come_while_a_run_goes_on_are_taken_once(app: App) -> None:
    async with working(app):
        run = await app.start(consume, 0, 40)
        for number in range(40):
            await app.signal(run.id, item, 1, message_id=f"m{number}")
            await app.signal(run.id, item, 1, message_id=f"m{number}")

        assert await run.result(timeout="60s") == 40


@workflow
async def remember(left: int) -> dict[str, Any]:
    here = onward.current()
    here.attributes[f"left {left}"] = here.uid != ""
    here.counters.add("rounds")
    if left:
        onward.continue_as_new(left - 1)
    return {**here.attributes, "deadline": here.deadline is not None}


async def test_attributes_and_the_deadline_go_over(app: App) -> None:
    async with working(app):
        run = await app.start(remember.options(deadline="1h"), 2)
        result = await run.result(timeout="60s")

        assert result == {"left 2": True, "left 1": True, "left 0": True, "deadline": True}
        info = await run.info()
        assert list(info.attributes) == ["left 2", "left 1", "left 0"]
        assert info.counters == {"rounds": 1}
        assert info.deadline is not None
        first = await info_of(app, run.uid)
        assert first.deadline == info.deadline


@workflow
async def for_ever(n: int) -> None:
    await round_done()
    onward.continue_as_new(n + 1)


async def test_a_deadline_ends_a_run_that_goes_on_for_ever(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(for_ever.options(deadline="150ms"), 0)
        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await ends(app, url, run, "timed_out", "deadline")


@pytest.mark.parametrize("force", [False, True])
async def test_a_run_that_goes_on_for_ever_is_cancelled(app: App, url: str, force: bool) -> None:
    async with working(app):
        run = await app.start(for_ever, 0)

        async def is_going() -> bool:
            return rounds["done"] > 3

        await until(is_going)
        assert await run.cancel(force=force) == "accepted"

        await until_state(run, "cancelled")
        await ends(app, url, run, "cancelled", "forced" if force else "operator")
        assert {info.state for info in await app.runs()} == {"cancelled", "succeeded"}


async def test_a_run_that_goes_on_for_ever_is_paused_and_resumed(app: App) -> None:
    async with working(app):
        run = await app.start(for_ever, 0)

        async def is_going() -> bool:
            return rounds["done"] > 3

        await until(is_going)
        await app.pause(run.id)
        await until_state(run, "paused")
        rounds.clear()
        await app.resume(run.id)
        await until(is_going)
        await run.cancel()
        await until_state(run, "cancelled")


@workflow
async def parent_of_counter() -> int:
    return await count_up(0, 5)


async def test_a_child_goes_on_and_its_parent_gets_the_last_result(app: App) -> None:
    async with working(app):
        assert await app.run(parent_of_counter) == 5


@workflow
async def parent_for_ever() -> None:
    await for_ever(0)


async def test_a_child_that_goes_on_for_ever_ends_with_its_parent(app: App) -> None:
    async with working(app):
        run = await app.start(parent_for_ever)

        async def is_going() -> bool:
            return rounds["done"] > 3

        await until(is_going)
        await run.cancel()
        await until_state(run, "cancelled")

        async def nothing_is_left() -> bool:
            return all(info.finished_at is not None for info in await app.runs(limit=1000))

        await until(nothing_is_left)


async def test_whatever_moment_a_cancel_comes_it_ends_what_goes_on_for_ever(app: App) -> None:
    """The body may have said that it goes on while the cancel is on its way into history."""

    async def nothing_is_left() -> bool:
        return all(info.finished_at is not None for info in await app.runs(limit=10))

    async with working(app):
        for _ in range(10):
            rounds.clear()
            run = await app.start(parent_for_ever)

            async def is_going() -> bool:
                return rounds["done"] > 3

            await until(is_going)
            await run.cancel()
            await until(nothing_is_left)


@workflow
async def goes_on_in_cleanup() -> None:
    try:
        await item.wait()
    finally:
        onward.continue_as_new()


async def test_a_cancelled_run_does_not_go_on(app: App, url: str) -> None:
    async with working(app):
        run = await app.start(goes_on_in_cleanup)
        await until_state(run, "waiting")
        await run.cancel()

        await until_state(run, "cancelled", "failed", "succeeded")
        await ends(app, url, run, "cancelled", "operator")
        assert len(await app.runs()) == 1


@workflow
async def falsy_end(value: Any, left: int) -> Any:
    if left:
        onward.continue_as_new(value, left - 1)
    return value


async def test_a_falsy_last_result_is_a_result(app: App) -> None:
    async with working(app):
        for value in FALSY:
            result = await app.run(falsy_end, value, 2)
            assert result == value
            assert type(result) is type(value)


async def test_a_run_can_only_go_on_from_its_body(app: App) -> None:
    with pytest.raises(onward.errors.NotInBody):
        onward.continue_as_new()
    async with app:
        assert await app.runs() == []
