"""Behaviours that docs/lineage.md promises and that no other test is about."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Fatal, Retry, Signal, step, workflow
from onward.errors import NotFound, RunFailed
from tests.kit.watching import steps_of, until, until_state, working

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

go = Signal("go")


# --- decorators and arguments ---------------------------------------------------------------------


@step
async def bare(n: int) -> int:
    return n + 1


@step(name="with options", retry=Retry(attempts=2))
def with_options(n: int) -> int:
    return n + 2


@workflow()
async def both(n: int) -> int:
    return await bare(n) + await with_options(n)


async def test_a_decorator_works_bare_and_with_options_in_a_run_and_outside(app: App) -> None:
    assert await both(1) == 5
    async with working(app, workflows=[both]):
        run = await app.start(both, 1)
        assert await run.result(timeout="60s") == 5
        assert await steps_of(run) == ["bare", "with options"]


@workflow
async def odd_names(tags: str, queue: str, priority: str, delay: str, id: str, retry: str) -> str:  # noqa: A002
    return await echo(tags=tags, queue=queue, key=priority, timeout=delay) + id + retry


@step
async def echo(tags: str, queue: str, key: str, timeout: str) -> str:
    return tags + queue + key + timeout


async def test_arguments_may_be_called_like_options(app: App) -> None:
    async with working(app, workflows=[odd_names]):
        given = {"tags": "a", "queue": "b", "priority": "c", "delay": "d", "id": "e", "retry": "f"}
        run = await app.start(odd_names.options(priority=3, id="odd"), **given)
        assert await run.result(timeout="60s") == "abcdef"
        assert (await run.info()).priority == 3


@step
async def describe(name: str, facts: dict[str, int]) -> str:
    return f"{name}: {facts}"


@workflow
async def described() -> list[str]:
    return await describe.starmap([("ab", {"a": 1}), ("cd", {})])


async def test_a_pair_whose_second_item_is_a_dict_is_two_arguments(app: App) -> None:
    async with working(app, workflows=[described]):
        assert await app.run(described) == ["ab: {'a': 1}", "cd: {}"]


# --- time -----------------------------------------------------------------------------------------


@workflow
async def what_time() -> tuple[datetime, datetime]:
    before = onward.now()
    await asyncio.sleep(0.02)
    return before, onward.now()


async def test_the_time_in_a_run_has_a_zone_and_moves_with_its_history(app: App) -> None:
    async with working(app, workflows=[what_time]):
        before, after = await app.run(what_time)
    assert before.tzinfo is UTC
    assert after - before >= timedelta(milliseconds=20)


@workflow
async def short_sleeps() -> None:
    await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    await asyncio.sleep(0.002)


async def test_every_sleep_of_a_body_is_a_timer_however_short(app: App) -> None:
    async with working(app, workflows=[short_sleeps]):
        run = await app.start(short_sleeps)
        await run.result(timeout="60s")
        timers = [row.kind for row in await run.history()]
        assert timers == ["timer", "timer"]  # a sleep of 0 only lets others have their turn


# --- ids, queues and what a worker knows ----------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda app: app.get("missing"),
        lambda app: app.cancel("missing"),
        lambda app: app.signal("missing", "go"),
        lambda app: app.pause("missing"),
        lambda app: app.retry("missing"),
        lambda app: app.fork("missing"),
    ],
)
async def test_an_unknown_id_is_an_error(app: App, call: Callable[[App], Awaitable[Any]]) -> None:
    async with app:
        with pytest.raises(NotFound, match="missing"):
            await call(app)


calls: list[object] = []


@workflow
async def falsy(value: str) -> Any:
    calls.append(value)
    return {"0": 0, "false": False, "text": "", "list": [], "dict": {}, "none": None}[value]


@pytest.mark.parametrize(
    ("name", "value"),
    [("0", 0), ("false", False), ("text", ""), ("list", []), ("dict", {}), ("none", None)],
)
async def test_an_id_that_ended_with_a_falsy_result_is_not_run_again(
    app: App, name: str, value: object
) -> None:
    calls.clear()
    async with working(app, workflows=[falsy]):
        for _ in range(2):
            run = await app.start(falsy.options(id="once"), name)
            result = await run.result(timeout="60s")
            assert (type(result), result) == (type(value), value)
    assert calls == [name]


@workflow
async def known() -> str:
    return "known"


@workflow
async def unknown() -> str:
    return "unknown"


async def test_a_worker_leaves_alone_what_it_does_not_know(app: App) -> None:
    async with working(app, workflows=[known]):
        stranger = await app.start(unknown.options(id="stranger"))
        assert await app.run(known) == "known"
        [unserved] = await app.unserved()
        assert (unserved.run.id, await stranger.state()) == ("stranger", "ready")
        async with app.worker(workflows=[unknown]):
            assert await stranger.result(timeout="60s") == "unknown"
        assert (await stranger.info()).attempt == 1


async def test_a_worker_takes_the_runs_of_its_queues_alone(app: App) -> None:
    async with working(app, queues=["day"], workflows=[known]):
        night = await app.start(known.options(queue="night"))
        assert await app.run(known.options(queue="day")) == "known"
        assert await night.state() == "ready"
        async with app.worker(queues=["night"], workflows=[known]):
            assert await night.result(timeout="60s") == "known"


@pytest.mark.parametrize("wanted", [["gpu"], ["gpu", "fast"]])
async def test_a_worker_with_tags_takes_what_shares_one_and_what_has_none(
    app: App, wanted: list[str]
) -> None:
    async with working(app, tags=["gpu"], workflows=[known]):
        other = await app.start(known.options(tags=["arm"]))
        assert await app.run(known.options(tags=wanted)) == "known"
        assert await app.run(known) == "known"
        assert await other.state() == "ready"
        async with app.worker(tags=["arm"], workflows=[known]):
            assert await other.result(timeout="60s") == "known"


async def test_a_worker_without_tags_takes_only_what_asks_for_none(app: App) -> None:
    async with working(app, workflows=[known]):
        tagged = await app.start(known.options(tags=["gpu"]))
        assert await app.run(known) == "known"
        assert await tagged.state() == "ready"


# --- ends -----------------------------------------------------------------------------------------


@workflow
async def raises_a_timeout() -> None:
    raise TimeoutError("of my own")


async def test_a_timeout_error_of_the_users_is_a_failure_and_no_missed_deadline(app: App) -> None:
    async with working(app, workflows=[raises_a_timeout]):
        run = await app.start(raises_a_timeout.options(deadline="1h"))
        with pytest.raises(RunFailed, match="of my own"):
            await run.result(timeout="60s")
        assert await run.state() == "failed"


@workflow
async def waits() -> None:
    await go.wait()


async def test_a_run_that_missed_its_deadline_cannot_be_cancelled(app: App) -> None:
    async with working(app, workflows=[waits]):
        run = await app.start(waits.options(deadline="50ms"))
        await until_state(run, "timed_out")
        assert not await run.cancel()
        assert not await run.cancel(force=True)
        assert await run.state() == "timed_out"


async def test_who_waited_too_short_may_wait_again_and_what_is_over_needs_no_worker(
    app: App,
) -> None:
    async with app:
        async with app.worker(workflows=[waits]):
            run = await app.start(waits.options(id="waits"))
            with pytest.raises(TimeoutError):
                await run.result(timeout="10ms")
            await run.signal(go)
            await run.result(timeout="60s")
        again = await app.get("waits")
        assert await again.result(timeout="60s") is None


ticks: list[float] = []


@step
async def goes_on() -> None:
    while True:
        ticks.append(time.monotonic())
        await asyncio.sleep(0.001)


@step
async def fails_soon() -> None:
    while not ticks:  # noqa: ASYNC110 - it is another step that we watch
        await asyncio.sleep(0.001)
    raise Fatal("enough")


@workflow
async def one_fails() -> None:
    await asyncio.gather(goes_on(), fails_soon())


async def test_nothing_of_a_run_that_is_over_goes_on(app: App) -> None:
    ticks.clear()
    async with working(app, workflows=[one_fails]):
        run = await app.start(one_fails)
        with pytest.raises(RunFailed, match="enough"):
            await run.result(timeout="60s")

        async def it_stands_still() -> bool:
            seen = len(ticks)
            await asyncio.sleep(0.02)
            return len(ticks) == seen

        await until(it_stands_still)


# --- at the same time -----------------------------------------------------------------------------

present: set[int] = set()


@step(timeout="20s", retry=Retry(attempts=1))
async def meets_the_others(n: int) -> int:
    present.add(n)
    while len(present) < 4:  # noqa: ASYNC110 - it is other runs that we watch
        await asyncio.sleep(0.001)
    return n


@workflow
async def one_of_four(n: int) -> int:
    return await meets_the_others(n)


@workflow
async def all_four() -> int:
    return sum(await asyncio.gather(*(one_of_four(n) for n in range(4))))


@workflow
async def above_all_four() -> int:
    return await all_four()


async def test_the_children_of_a_gather_run_at_the_same_time(app: App) -> None:
    present.clear()
    async with working(app, workflows=[one_of_four, all_four, above_all_four]):
        assert await app.run(above_all_four) == 6


# --- counters -------------------------------------------------------------------------------------


@step(retry=Retry(attempts=3, delay=0))
async def counts_and_fails_twice() -> None:
    onward.current().counters.add("tries")
    onward.current().counters.add("weight", 0.5)
    if onward.current().attempt < 3:
        raise ValueError


@workflow
async def counted() -> None:
    await counts_and_fails_twice()
    onward.current().counters.add("tries", 2)


async def test_counters_count_once_and_whole_numbers_stay_whole(app: App) -> None:
    async with working(app, workflows=[counted]):
        run = await app.start(counted)
        await run.result(timeout="60s")
        counters = (await run.info()).counters
    assert dict(counters) == {"tries": 3, "weight": 0.5}
    assert type(counters["tries"]) is int
