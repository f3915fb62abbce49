"""What was finished beside the call that failed is not done again when its run is retried."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import onward
from onward import App, Retry, Workflow, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import until_state, working

done: Counter[str] = Counter()
broken: set[str] = set()
broken_once: set[str] = set()
news: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    done.clear()
    broken.clear()
    broken.add("bad")
    broken_once.clear()
    news.update(failed=asyncio.Event(), late=asyncio.Event())


@step(retry=Retry(attempts=1))
async def part(name: str) -> str:
    done[name] += 1
    if name in broken:
        broken.difference_update(broken_once)
        raise ConnectionError(f"{name} is broken")
    return name


@step
async def slow_part(name: str) -> str:
    """Come to an end only after the failure is in history."""
    done[name] += 1
    onward.current().counters.add(name)
    await news["failed"].wait()
    return name


@workflow
async def slow_child(name: str) -> str:
    return await slow_part(name)


async def bad() -> str:
    try:
        return await part("bad")
    finally:
        news["failed"].set()


async def again(app: App, run: onward.Run[Any]) -> Any:
    """Retry a run, now that nothing is broken any more."""
    with pytest.raises(RunFailed):
        await run.result(timeout="60s")
    broken.clear()
    return await (await app.retry(run.id)).result(timeout="60s")


@workflow
async def siblings() -> list[str]:
    news["failed"].clear()
    calls = bad(), slow_part("step"), slow_child("child")
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [str(outcome) for outcome in outcomes]


async def test_a_step_and_a_child_are_not_done_again(app: App) -> None:
    async with working(app):
        run = await app.start(siblings)
        assert await again(app, run) == ["bad", "step", "child"]
        assert done == {"bad": 2, "step": 1, "child": 1}


async def test_what_they_counted_is_counted_once(app: App) -> None:
    async with working(app):
        run = await app.start(siblings)
        await again(app, run)
        assert (await run.info()).counters == {"step": 1}


async def test_a_run_that_is_retried_as_a_whole_by_itself_does_not_do_them_again(app: App) -> None:
    broken_once.add("bad")
    async with working(app):
        run = await app.start(siblings.options(retry=Retry(attempts=2, delay="1ms")))
        assert await run.result(timeout="60s") == ["bad", "step", "child"]
        assert done == {"bad": 2, "step": 1, "child": 1}


@workflow
async def complains() -> list[str]:
    names = "one", "two", "three"
    outcomes = await asyncio.gather(*map(part, names), return_exceptions=True)
    if any(isinstance(outcome, BaseException) for outcome in outcomes):
        raise RuntimeError("some are broken")  # and it does not say which
    return [str(outcome) for outcome in outcomes]


async def test_all_that_failed_together_is_done_again(app: App) -> None:
    broken.update(("one", "three"))
    async with working(app):
        run = await app.start(complains)
        assert await again(app, run) == ["one", "two", "three"]
        assert done == {"one": 2, "two": 1, "three": 2}


@workflow
async def cleans_up() -> str:
    try:
        return await part("bad")
    finally:
        await part("cleanup")


async def test_what_came_of_the_failure_is_done_again(app: App) -> None:
    async with working(app):
        run = await app.start(cleans_up)
        assert await again(app, run) == "bad"
        assert done == {"bad": 2, "cleanup": 2}


@workflow
async def sleeps_beside() -> str:
    async def sleep() -> None:
        await onward.sleep("200ms")

    outcomes = await asyncio.gather(part("bad"), sleep(), return_exceptions=True)
    if isinstance(outcomes[0], BaseException):
        raise outcomes[0]
    return str(outcomes[0])


async def test_a_sleep_that_was_over_is_not_slept_again(app: App) -> None:
    async with working(app):
        run = await app.start(sleeps_beside)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        broken.clear()
        retried = await app.retry(run.id)
        await until_state(retried, "succeeded")
        timers = [row for row in await retried.history() if row.kind == "timer" and row.seq]
        assert len(timers) == 1
        assert timers[0].due is None  # it was never waited for


@step
async def late() -> str:
    await news["late"].wait()
    return "in time"


@workflow
async def has_a_limit() -> str:
    async def limited() -> str:
        try:
            async with asyncio.timeout(1):
                return await late()
        except TimeoutError:
            return "too late"

    outcomes = await asyncio.gather(part("bad"), limited(), return_exceptions=True)
    if isinstance(outcomes[0], BaseException):
        raise outcomes[0]
    return str(outcomes[1])


async def test_a_limit_that_was_reached_is_set_anew(app: App) -> None:
    async with working(app):
        run = await app.start(has_a_limit)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        news["late"].set()
        assert await again(app, run) == "in time"


@workflow
async def other_arguments(_: None = None) -> list[str]:
    news["failed"].clear()
    name = "first" if "bad" in broken else "second"  # as if the code were another now
    outcomes = await asyncio.gather(bad(), slow_part(name), return_exceptions=True)
    if isinstance(outcomes[0], BaseException):
        raise outcomes[0]
    return [str(outcome) for outcome in outcomes]


async def test_a_call_with_other_arguments_is_another_call(app: App) -> None:
    async with working(app):
        run = await app.start(other_arguments)
        assert await again(app, run) == ["bad", "second"]
        assert done == {"bad": 2, "first": 1, "second": 1}


async def test_it_is_kept_over_a_retry_that_did_not_come_so_far(app: App) -> None:
    broken.add("other")

    async with working(app):
        run = await app.start(two_ways)
        with pytest.raises(RunFailed, match="bad is broken"):
            await run.result(timeout="60s")
        broken.remove("bad")
        run = await app.retry(run.id)
        with pytest.raises(RunFailed, match="other is broken"):
            await run.result(timeout="60s")
        broken.clear()
        run = await app.retry(run.id)
        assert await run.result(timeout="60s") == ["bad", "step"]
        assert done == {"bad": 2, "other": 2, "step": 1}


@workflow
async def two_ways() -> list[str]:
    """Ask for the slow part in another branch, which a retry comes to only later."""
    news["failed"].clear()

    async def late() -> str:
        if "bad" not in broken:
            await part("other")
        return await slow_part("step")

    outcomes = await asyncio.gather(bad(), late(), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [str(outcome) for outcome in outcomes]


@workflow
async def plain_gather() -> list[str]:
    return list(await asyncio.gather(part("bad"), part("good")))


@workflow
async def task_group() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part(name)) for name in ("bad", "good")]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("shape", [plain_gather, task_group])
async def test_what_was_finished_before_its_code_could_hear_of_it_is_not_done_again(
    app: App, shape: Workflow[[], list[str]]
) -> None:
    async with working(app):
        run = await app.start(shape)
        with pytest.raises((RunFailed, ExceptionGroup)):
            await run.result(timeout="60s")
        history = await run.history()
        broken.clear()
        assert await (await app.retry(run.id)).result(timeout="60s") == ["bad", "good"]
        was_finished = any(row.state == "succeeded" for row in history)
        assert done == {"bad": 2, "good": 1 if was_finished else 2}


@workflow
async def maps_beside() -> list[str]:
    calls = part("bad"), part.map(["m1", "m2"])
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return ["all"]


@workflow
async def only_maps() -> list[str]:
    return [*await part.map(["m1", "m2"]), "all"][-1:]


@pytest.mark.parametrize("shape", [maps_beside, only_maps])
async def test_the_items_of_a_map_that_failed_are_done_again(
    app: App, shape: Workflow[[], list[str]]
) -> None:
    broken.add("m2")
    async with working(app):
        assert await again(app, await app.start(shape)) == ["all"]
        assert (done["m1"], done["m2"]) == (1, 2)


@workflow
async def one_part(keyed: bool) -> list[str]:
    names = [f"m{n}" for n in range(20)]
    return await part.map(names, limit=1, key=str if keyed else None)  # one chunk


@pytest.mark.parametrize("keyed", [False, True])
async def test_the_items_of_a_part_beside_those_that_failed_are_not_done_again(
    app: App, keyed: bool
) -> None:
    names = [f"m{n}" for n in range(20)]
    broken.update(("m7", "m11"))
    async with working(app):
        run = await app.start(one_part, keyed)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        broken.discard("m7")
        run = await app.retry(run.id)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        broken.clear()
        assert await (await app.retry(run.id)).result(timeout="60s") == names
    assert done == {**dict.fromkeys(names, 1), "m7": 2, "m11": 3}


@step
async def undo(name: str) -> str:
    done[name] += 1
    return name


@workflow
async def compensates() -> str:
    try:
        return await part("bad")
    except ConnectionError:
        await undo.options(key="k")("undo")
        await undo.options(key="k")("undo")  # asked twice, done once
        raise


async def test_a_compensation_with_a_key_is_done_again(app: App) -> None:
    async with working(app):
        run = await app.start(compensates)
        for _ in range(2):
            with pytest.raises(RunFailed):
                await run.result(timeout="60s")
            run = await app.retry(run.id)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        assert done == {"bad": 3, "undo": 3}


@workflow
async def waits_with_a_limit() -> str:
    async def limited() -> str:
        finished, _ = await asyncio.wait([asyncio.ensure_future(late())], timeout=1)
        return finished.pop().result() if finished else "too late"

    outcomes = await asyncio.gather(part("bad"), limited(), return_exceptions=True)
    if isinstance(outcomes[0], BaseException):
        raise outcomes[0]
    return str(outcomes[1])


async def test_a_limit_of_a_wait_is_set_anew_as_well(app: App) -> None:
    async with working(app):
        run = await app.start(waits_with_a_limit)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        news["late"].set()
        assert await again(app, run) == "in time"


@workflow
async def names_its_task() -> str:
    return await asyncio.create_task(part("bad"), name='a\x1fb "c"')


async def test_whatever_a_task_is_called_its_call_is_found(app: App) -> None:
    async with working(app):
        assert await again(app, await app.start(names_its_task)) == "bad"


async def test_what_crashed_runs_had_finished_is_not_done_again(app: App) -> None:
    async with working(app):
        run = await app.start(handled)
        await until_state(run, "waiting")
        await app._store.stop(run.uid, state="failed", reason="crashed")
        broken.clear()
        retried = await app.retry(run.id)
        await retried.signal("go", None)
        assert await retried.result(timeout="60s") == "fallback"
        assert done == {"bad": 1, "fallback": 1}


@workflow
async def handled() -> str:
    try:
        answer = await part("bad")
    except ConnectionError:
        answer = await part("fallback")
    await onward.wait_signal("go")
    return answer
