"""Pausing a run pauses what works for it: maps, steps that run elsewhere, and children."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from tests.kit.watching import lasting, steps_of, until, until_started, until_state, working

if TYPE_CHECKING:
    from onward import Run, Workflow

begun: Counter[str] = Counter()
gate = asyncio.Event()
word = Signal("word", str)

QUEUES = ["default", "elsewhere"]


@pytest.fixture(autouse=True)
def _nothing_is_begun() -> None:
    global gate  # an event belongs to the loop of one test
    begun.clear()
    gate = asyncio.Event()


async def gated(name: str) -> str:
    begun[name] += 1
    await gate.wait()
    return name


@step
async def item(n: int) -> int:
    await gated(f"item {n}")
    return n


@step(queue="elsewhere", limit=2)
async def far(n: int) -> int:
    await gated(f"far {n}")
    return n


@step
async def near(name: str) -> str:
    return await gated(name)


@step
async def quick(name: str) -> str:
    begun[name] += 1
    return name


@workflow
async def mapping() -> int:
    return sum(await item.map(range(8), limit=2))


@workflow
async def routing() -> int:
    return sum(await asyncio.gather(*map(far, range(8))))


@workflow
async def child() -> int:
    await near("first")
    await quick("second")
    return 28


@workflow
async def middle() -> int:
    return await child()


@workflow
async def nesting() -> int:
    return await middle()


WORK: dict[str, tuple[Workflow[[], int], int]] = {
    "map": (mapping, 2),
    "routed step": (routing, 2),
    "grandchild": (nesting, 1),
}


async def open_runs(app: App) -> list[onward.RunInfo]:
    return [info for info in await app.runs() if info.finished_at is None]


async def are_held(app: App) -> None:
    """Wait until every open run is paused."""

    async def there() -> bool:
        return {info.state for info in await open_runs(app)} == {"paused"}

    await until(there)


async def has_begun(count: int) -> None:
    async def there() -> bool:
        return begun.total() == count

    await until(there)


async def hold_arrives(app: App, worker: Any) -> None:
    """Wait until the worker has read the pause of every run that it has."""

    async def there() -> bool:
        return all(execution.inbox.held_by for execution in worker.running.values())

    await until(there)


@pytest.mark.parametrize("how", WORK)
async def test_what_works_for_a_paused_run_finishes_its_calls_and_begins_no_other(
    app: App, how: str
) -> None:
    work, count = WORK[how]
    async with working(app, queues=QUEUES) as worker:
        run = await app.start(work.options(id="top"))
        await has_begun(count)
        assert await app.pause("top")
        await hold_arrives(app, worker)
        gate.set()
        await are_held(app)

        assert begun.total() == count
        held = [info for info in await open_runs(app) if info.held_by]
        assert {info.held_by for info in held} == {("top",)}
        assert len(held) == len(await open_runs(app)) > 1
        await app.resume("top")
        assert await run.result(timeout="60s") == 28
        assert set(begun.values()) == {1}


async def pause_and_leave(app: App, work: Workflow[[], int], count: int) -> None:
    """Pause a run while its calls are under way, and give back what the worker has at once."""
    async with asyncio.timeout(60), app.worker(queues=QUEUES):
        await app.start(work.options(id="top"))
        await has_begun(count)
        await app.pause("top")
        raise LookupError


@lasting
@pytest.mark.parametrize("how", WORK)
async def test_a_worker_that_comes_later_begins_nothing_of_what_is_paused(
    url: str, how: str
) -> None:
    work, count = WORK[how]
    async with App(url) as first:
        with pytest.raises(LookupError):
            await pause_and_leave(first, work, count)
        later = App(url)
        async with working(later, queues=QUEUES):
            await are_held(later)
            assert begun.total() == count
            gate.set()
            await later.resume("top")
            assert await (await later.get("top")).result(timeout="60s") == 28


async def test_a_pause_needs_no_worker(app: App) -> None:
    async with app:
        run = await app.start(mapping)
        await app.pause(run.id)
        assert (await run.info()).held_by == (run.id,)
        assert await run.state() == "paused"
        async with app.worker():
            gate.set()
            await app.resume(run.id)
            assert await run.result(timeout="60s") == 28


# --- whose pause it is ----------------------------------------------------------------------------


@workflow
async def listener(name: str) -> str:
    heard = await word.wait()
    await quick(name)
    return heard


@workflow
async def awaits_two() -> list[str]:
    return list(
        await asyncio.gather(listener.options(id="one")("one"), listener.options(id="two")("two"))
    )


async def test_a_child_that_was_paused_by_itself_stays_paused_when_its_parent_goes_on(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(awaits_two.options(id="top"))
        one, two = await until_started(app, "one"), await until_started(app, "two")
        await until_state(one, "waiting")
        await until_state(two, "waiting")
        await app.pause("one")
        await app.pause("top")
        assert (await one.info()).held_by == ("one", "top")
        assert (await two.info()).held_by == ("top",)
        await app.signal("one", word, "a")
        await app.signal("two", word, "b")

        await app.resume("top")

        assert await two.result(timeout="60s") == "b"
        assert (await one.info()).held_by == ("one",)
        assert begun == {"two": 1}
        await app.resume("one")
        assert await run.result(timeout="60s") == ["a", "b"]


async def test_a_resume_of_a_child_does_not_free_it_from_the_pause_of_its_parent(app: App) -> None:
    async with working(app):
        run = await app.start(awaits_two.options(id="top"))
        one, two = await until_started(app, "one"), await until_started(app, "two")
        await until_state(one, "waiting")
        await until_state(two, "waiting")
        await app.pause("top")
        assert await app.resume("one")
        await app.signal("one", word, "a")
        await app.signal("two", word, "b")
        assert await one.state() == "paused"

        await app.resume("top")
        assert await run.result(timeout="60s") == ["a", "b"]


@workflow
async def starts_others() -> str:
    await onward.start(listener.options(id="started"), "started")
    await listener.options(id="outliving", cancel_with_parent=False)("outliving")
    return "done"


async def test_runs_that_outlive_the_paused_one_go_on(app: App) -> None:
    async with working(app):
        run = await app.start(starts_others.options(id="top"))
        others = [await until_started(app, id) for id in ("started", "outliving")]  # noqa: A001
        await until_state(run, "waiting")
        await app.pause("top")

        for other in others:
            await other.signal(word, "x")
            assert await other.result(timeout="60s") == "x"
        assert await run.state() == "paused"
        await app.resume("top")
        assert await run.result(timeout="60s") == "done"


# --- with cancel, deadline, retry and continue ----------------------------------------------------


@workflow
async def tidy_child() -> str:
    try:
        return await word.wait()
    finally:
        await quick("child tidied")


@workflow
async def tidy_parent() -> str:
    try:
        return await tidy_child.options(id="child")()
    finally:
        await quick("parent tidied")
        await tidied_by_a_child()


@workflow
async def tidied_by_a_child() -> None:
    await quick("tidied by a child")


@pytest.mark.parametrize(("deadline", "state"), [(None, "cancelled"), ("1s", "timed_out")])
async def test_a_paused_tree_that_is_cancelled_cleans_up(
    app: App, deadline: str | None, state: str
) -> None:
    async with working(app):
        run = await app.start(tidy_parent.options(id="top", deadline=deadline))
        child = await until_started(app, "child")
        await until_state(child, "waiting")
        await app.pause("child")
        await app.pause("top")
        if deadline is None:
            assert await run.cancel()

        await until_state(run, state)
        await until_state(child, "cancelled")
        assert (await run.info()).held_by == ()

    assert begun == {"child tidied": 1, "parent tidied": 1, "tidied by a child": 1}


async def test_a_paused_tree_is_ended_by_force(app: App) -> None:
    async with working(app):
        run = await app.start(tidy_parent.options(id="top"))
        child = await until_started(app, "child")
        await until_state(child, "waiting")
        await app.pause("top")

        assert await run.cancel(force=True)

        assert await run.state() == "cancelled"
        await until_state(child, "cancelled")
    assert begun == {"child tidied": 1}


@step(retry=Retry(attempts=1))
async def fails_once() -> str:
    begun["tried"] += 1
    if begun["tried"] == 1:
        raise ValueError("not yet")
    return "done"


@workflow
async def failing() -> str:
    await near("before")
    return await fails_once()


@workflow
async def retries_a_child() -> str:
    return await failing.options(id="child", retry=Retry(attempts=2, delay="10ms"))()


async def test_a_child_that_is_retried_while_its_parent_is_paused_is_held(app: App) -> None:
    async with working(app):
        run = await app.start(asks_for_a_failed_child.options(id="top"))
        failed = await until_started(app, "child")
        await until_state(failed, "failed")
        await until_state(run, "waiting")
        await app.pause("top")

        again = await app.retry("child")

        info = await again.info()
        assert (info.state, info.held_by) == ("paused", ("top",))
        assert begun["tried"] == 1
        await app.resume("top")
        await until_state(again, "succeeded")
        await run.signal(word, "go")
        assert await run.result(timeout="60s") == "go"


@workflow
async def asks_for_a_failed_child() -> str:
    gate.set()
    task = asyncio.ensure_future(failing.options(id="child")())
    heard = await word.wait()
    await asyncio.wait([task])
    task.exception()
    return heard


@workflow
async def counts_on(left: int) -> str:
    await near(f"left {left}")
    return onward.continue_as_new(left - 1) if left else "done"


@workflow
async def counts() -> str:
    return await counts_on.options(id="child")(2)


@pytest.mark.parametrize("work", [counts, retries_a_child], ids=["continues", "is retried"])
async def test_a_child_that_would_go_on_as_a_new_run_waits_for_its_parent(
    app: App, work: Workflow[[], str]
) -> None:
    async with working(app) as worker:
        run = await app.start(work.options(id="top"))
        first = await until_started(app, "child")
        await has_begun(1)
        await app.pause("top")
        await hold_arrives(app, worker)
        gate.set()
        await are_held(app)

        assert (await (await app.get("child")).info()).uid == first.uid
        assert begun.total() == 1
        await app.resume("top")
        assert await run.result(timeout="60s") == "done"
        assert (await (await app.get("child")).info()).uid != first.uid


# --- time -----------------------------------------------------------------------------------------


@workflow
async def napper() -> str:
    await onward.sleep("300ms")
    return await quick("awake")


@workflow
async def awaits_a_napper() -> str:
    return await napper.options(id="child")()


async def test_a_timer_of_a_child_keeps_its_due_time_while_it_is_held(app: App) -> None:
    async with working(app):
        run = await app.start(awaits_a_napper.options(id="top"))
        nap = await until_started(app, "child")
        await until_state(nap, "waiting")
        [timer] = await nap.history()
        await app.pause("top")
        probe = await app.start(napper)  # its time comes later
        await probe.result(timeout="60s")
        assert (await nap.state(), await steps_of(nap)) == ("paused", [])

        await app.resume("top")

        assert await run.result(timeout="60s") == "awake"
        kept = (await nap.history())[0]
        assert (kept.identity, kept.due) == (timer.identity, timer.due)


async def delayed_child(app: App) -> Run[Any]:
    return await until_started(app, "late")


@workflow
async def awaits_a_late_child() -> str:
    return await napper.options(id="late", delay="1h")()


async def test_a_child_that_is_not_due_is_not_begun_early_by_a_resume(app: App) -> None:
    async with working(app):
        run = await app.start(awaits_a_late_child.options(id="top"))
        late = await delayed_child(app)
        await until_state(run, "waiting")
        due = (await late.info()).due
        await app.pause("top")
        assert await late.state() == "paused"
        await app.resume("top")

        info = await late.info()
        assert (info.state, info.due) == ("waiting", due)
        await run.cancel()
        await until_state(run, "cancelled")
