"""Runs that are run again: by an operator, or because that was asked for when they started."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

import onward
from onward import App, Fatal, Retry, Signal, step, workflow
from onward.errors import RunFailed, RunOver
from onward.model.ends import to_overdue
from tests.kit.watching import lasting, steps_of, until_started, until_state, working

done: Counter[str] = Counter()
broken: set[str] = set()
fuel = Signal("fuel", int)


@pytest.fixture(autouse=True)
def _nothing_is_done() -> None:
    done.clear()
    broken.clear()


@step(retry=Retry(attempts=1))
async def part(name: str) -> str:
    done[name] += 1
    if name in broken:
        raise ConnectionError(f"{name} is broken")
    return name


@workflow
async def assembly() -> list[str]:
    first = await part("first")
    second, third = await asyncio.gather(part("second"), part("third"))
    await onward.sleep("1ms")
    return [first, second, third, await part("fourth")]


async def test_a_retry_repeats_nothing_that_was_finished(app: App) -> None:
    broken.add("fourth")
    async with working(app):
        run = await app.start(assembly.options(id="a"))
        with pytest.raises(RunFailed, match="fourth is broken"):
            await run.result(timeout="60s")
        broken.clear()

        again = await app.retry("a")

        assert await again.result(timeout="60s") == ["first", "second", "third", "fourth"]
        assert done == {"first": 1, "second": 1, "third": 1, "fourth": 2}


async def test_a_handle_follows_a_retry(app: App) -> None:
    broken.add("first")
    async with working(app):
        run = await app.start(assembly.options(id="a"))
        await until_state(run, "failed")
        broken.clear()
        again = await app.retry("a")

        assert await run.result(timeout="60s") == await again.result(timeout="10s")
        assert run.uid != again.uid
        info = await run.info()
        assert (info.uid, info.attempt, info.state) == (again.uid, 2, "succeeded")
        assert (info.follows, info.link) == (run.uid, "retry_of")


async def test_a_run_is_retried_once_at_a_time(app: App) -> None:
    broken.add("first")
    async with working(app):
        run = await app.start(assembly)
        await until_state(run, "failed")
        broken.clear()
        wishes = (app.retry(run.id) for _ in range(3))
        answers = await asyncio.gather(*wishes, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, RunOver)]

        assert len(refused) == 2
        assert await run.result(timeout="60s")


async def test_what_succeeded_is_not_retried(app: App) -> None:
    async with working(app):
        run = await app.start(assembly)
        await run.result(timeout="60s")

        with pytest.raises(RunOver, match="Fork it to run a part of it again"):
            await app.retry(run.id)


async def test_what_is_under_way_is_not_retried(app: App) -> None:
    async with working(app):
        run = await app.start(tank)
        await until_state(run, "waiting")

        with pytest.raises(
            RunOver, match=r"is waiting and has not failed\. Wait until it ends, or cancel it"
        ):
            await app.retry(run.id)


@workflow
async def tank() -> list[int]:
    await part("before")
    levels = [await fuel.wait()]
    levels.append(await fuel.wait())
    return levels


async def test_the_retry_of_a_cancelled_run_goes_on_where_it_was_cancelled(app: App) -> None:
    async with working(app):
        run = await app.start(tank)
        await run.signal(fuel, 1)
        await until_state(run, "waiting")
        await run.cancel()
        await until_state(run, "cancelled")

        again = await app.retry(run.id)
        await run.signal(fuel, 2)

        assert await again.result(timeout="60s") == [1, 2]
        assert done == {"before": 1}


async def test_the_retry_of_a_run_that_timed_out_has_a_new_deadline(app: App) -> None:
    async with working(app):
        run = await app.start(tank.options(deadline="1h"))
        await app._store.send(to_overdue(run.uid))
        await until_state(run, "timed_out")
        before = await run.info()

        again = await app.retry(run.id)
        await again.signal(fuel, 1)
        await again.signal(fuel, 2)

        assert await again.result(timeout="60s") == [1, 2]
        info = await again.info()
        assert info.deadline is not None
        assert before.deadline is not None
        assert info.scheduled_at is not None
        assert (info.deadline - info.scheduled_at).total_seconds() == 3600
        assert info.deadline > before.deadline


async def test_a_run_that_never_started_can_be_retried(app: App) -> None:
    async with working(app):
        run = await app.start(assembly.options(delay="1h"))
        await run.cancel()

        again = await app.retry(run.id)

        assert len(await again.result(timeout="60s")) == 4


async def test_a_run_that_an_operator_paused_is_resumed_and_not_retried(app: App) -> None:
    async with working(app):
        run = await app.start(crew.options(id="crew"))
        child = await until_started(app, "hand")
        await until_state(child, "waiting")
        await app.pause("crew")
        await until_state(run, "paused")

        with pytest.raises(RunOver, match=r"it is paused and has not failed\. Resume it"):
            await app.retry("crew")

        assert await app.resume("crew")
        await child.signal(fuel, 1)
        assert await run.result(timeout="60s") == 1
        assert done == {"tooled": 1}
        assert await child.state() == "succeeded"


@workflow
async def crew() -> int:
    return await hand.options(id="hand")()


@workflow
async def hand() -> int:
    await part("tooled")
    return await fuel.wait()


@workflow
async def translated() -> str:
    await part("before")
    try:
        return await part("failed_call")
    except ConnectionError:
        raise ValueError("something else") from None


async def test_the_failed_call_is_found_behind_the_error_that_took_its_place(app: App) -> None:
    broken.add("failed_call")
    async with working(app):
        run = await app.start(translated)
        await until_state(run, "failed")
        broken.clear()

        assert await (await app.retry(run.id)).result(timeout="60s") == "failed_call"
        assert done == {"before": 1, "failed_call": 2}


@workflow
async def together() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part(name)) for name in ("one", "two")]
    return [task.result() for task in tasks]


async def test_the_failed_call_is_found_in_a_group_of_errors(app: App) -> None:
    broken.add("two")
    async with working(app):
        run = await app.start(together)
        await until_state(run, "failed")
        assert (await app._store.end(run.uid)).failed_call is not None
        broken.clear()

        assert await (await app.retry(run.id)).result(timeout="60s") == ["one", "two"]
        assert done["two"] == 2


# --- by themselves --------------------------------------------------------------------------------


AT_ONCE = Retry(attempts=3, delay="1ms", jitter=0)


@workflow
async def shaky(fails: int) -> int:
    await part("before")
    attempt = onward.current().attempt
    done["body"] += 1
    if attempt <= fails:
        raise KeyError(f"attempt {attempt}")
    return attempt


async def test_a_run_is_retried_as_often_as_was_asked(app: App) -> None:
    async with working(app):
        run = await app.start(shaky.options(retry=AT_ONCE), 2)
        assert await run.result(timeout="60s") == 3
        assert done["before"] == 1
        assert (await run.info()).attempt == 3

        with pytest.raises(RunFailed, match="attempt 3"):
            await app.run(shaky.options(retry=AT_ONCE), 9)


@pytest.mark.parametrize(
    ("policy", "tries"),
    [
        (Retry(attempts=3, delay="1ms", only=(LookupError,)), 3),
        (Retry(attempts=3, delay="1ms", only=(KeyError,)), 3),
        (Retry(attempts=3, delay="1ms", only=(OSError,)), 1),
        (Retry(attempts=3, delay="1ms", never=(LookupError,)), 1),
        (Retry(attempts=3, delay="1ms", never=(OSError,)), 3),
    ],
)
async def test_a_run_is_retried_for_the_errors_listed(app: App, policy: Retry, tries: int) -> None:
    async with working(app):
        run = await app.start(shaky.options(retry=policy), 9)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")
        assert (await run.info()).attempt == tries


class Hopeless(Fatal):
    """No use."""


@workflow
async def hopeless() -> None:
    done["hopeless"] += 1
    raise Hopeless("no use")


async def test_a_fatal_error_is_not_retried(app: App) -> None:
    async with working(app):
        with pytest.raises(RunFailed, match="no use"):
            await app.run(hopeless.options(retry=AT_ONCE))
        assert done == {"hopeless": 1}


async def test_the_wait_before_a_retry_grows(app: App) -> None:
    policy = Retry(attempts=3, delay="30ms", factor=3, jitter=0)
    async with working(app):
        run = await app.start(shaky.options(retry=policy), 2)
        await run.result(timeout="60s")
        retries = [info for info in await app.runs() if info.link == "retry_of"]

        waits = sorted(info.scheduled_at - info.created_at for info in retries if info.scheduled_at)
        assert waits == [timedelta(milliseconds=30), timedelta(milliseconds=90)]


async def test_a_run_that_waits_for_its_retry_can_be_cancelled(app: App) -> None:
    policy = Retry(attempts=3, delay="1h", max_delay="2h")
    async with working(app):
        run = await app.start(shaky.options(retry=policy), 1)
        await until_state(run, "waiting")

        assert await run.cancel()
        await until_state(run, "cancelled")
        assert done["body"] == 1


@workflow
async def cannot_clean_up() -> None:
    try:
        await fuel.wait()
    finally:
        done["cleanup"] += 1
        raise RuntimeError("the cleanup failed")


async def test_a_cancelled_run_is_not_retried_when_its_cleanup_fails(app: App) -> None:
    async with working(app):
        run = await app.start(cannot_clean_up.options(retry=AT_ONCE))
        await until_state(run, "waiting")
        await run.cancel()

        with pytest.raises(RunFailed, match="the cleanup failed"):
            await run.result(timeout="60s")
        assert done == {"cleanup": 1}


async def test_a_child_is_retried_before_its_parent_hears_of_it(app: App) -> None:
    async with working(app):
        assert await app.run(parent_of_shaky) == 3
        assert done["body"] == 3


@workflow
async def parent_of_shaky() -> int:
    return await shaky.options(retry=AT_ONCE)(2)


async def test_a_retry_is_in_no_other_history(app: App) -> None:
    broken.add("fourth")
    async with working(app):
        run = await app.start(assembly)
        await until_state(run, "failed")
        old = (await app._store.history([run.uid]))[run.uid]
        broken.clear()
        await (await app.retry(run.id)).result(timeout="60s")

        assert (await app._store.history([run.uid]))[run.uid] == old
        assert await steps_of(run) == ["part", "part", "part", "sleep", "part"]


@lasting
async def test_a_retry_after_a_restart_repeats_nothing(app: App, url: str) -> None:
    broken.add("fourth")
    async with working(app):
        run = await app.start(assembly.options(id="a"))
        await until_state(run, "failed")
    broken.clear()
    later = App(url)
    async with working(later):
        assert len(await (await later.retry("a")).result(timeout="60s")) == 4
        assert done["first"] == 1
