"""Time limits of steps, cancels that reach running code, heartbeats and progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.errors import BadInput, NotInBody, RunCancelled, RunFailed, Unencodable
from tests.kit.watching import check_database, until, until_state

ONCE = Retry(attempts=1)
go = Signal("go")


class Seen:
    """What happened outside; a test resets it."""

    told: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Seen.told.clear()


@step(retry=Retry(attempts=2, delay=0), timeout="20ms")
async def slow() -> None:
    await hang("slow")


@step
async def endless() -> None:
    await hang("endless")


async def hang(name: str) -> None:
    Seen.told.append(f"{name} begins")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        Seen.told.append(f"{name} is stopped")
        raise


def shown(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__name__}: {error}"


@workflow
async def late() -> str:
    try:
        await slow()
    except TimeoutError as error:
        told = shown(error)
        Seen.told.append(told)
    await go.wait()
    return told


async def test_a_step_that_takes_too_long_raises_the_same_live_and_on_replay(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(late)
            await until_state(run, "waiting")
        [live] = [told for told in Seen.told if "TimedOut" in told]
        assert live.startswith("onward.errors.TimedOut: step 'slow' took longer than 20ms")
        async with app.worker():
            await run.signal(go)

            assert await run.result(timeout="60s") == live
        assert Seen.told.count("slow begins") == Seen.told.count("slow is stopped") == 2
        await check_database(app)


async def test_every_attempt_that_took_too_long_is_in_history(app: App) -> None:
    async with app, app.worker():
        run = await app.start(late)
        await run.signal(go)
        await run.result(timeout="60s")

        rows = [row for row in await run.history() if row.kind == "step"]
        assert sorted((row.attempt, row.state) for row in rows) == [(1, "failed"), (2, "failed")]
        for row in rows:
            assert row.error is not None
            assert row.error.type == "onward.errors.TimedOut"


@workflow
async def late_by_options() -> None:
    await endless.options(timeout="10ms", retry=ONCE)()


@workflow
async def late_elsewhere() -> None:
    await endless.options(timeout="10ms", retry=ONCE, queue="default")()


@workflow
async def late_by_the_worker() -> None:
    await endless.options(retry=ONCE)()


@pytest.mark.parametrize(
    ("calling", "limit"),
    [(late_by_options, "10ms"), (late_elsewhere, "10ms"), (late_by_the_worker, "30ms")],
)
async def test_the_call_decides_before_the_worker(
    memory: App, calling: onward.Workflow[[], None], limit: str
) -> None:
    async with memory, memory.worker(timeout="30ms"):
        with pytest.raises(RunFailed, match=f"step 'endless' took longer than {limit}"):
            await memory.run(calling)


@step(retry=Retry(attempts=3, delay=0, only=TimeoutError), timeout="10ms")
async def slow_at_first() -> int:
    Seen.told.append("begins")
    if len(Seen.told) < 3:
        await asyncio.sleep(60)
    return len(Seen.told)


@workflow
async def in_time_at_last() -> int:
    return await slow_at_first()


async def test_a_policy_may_speak_of_steps_that_took_too_long(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(in_time_at_last) == 3


@step(timeout="10ms", retry=ONCE)
async def deaf() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "what it had"
    return "not reached"


@workflow
async def unheard() -> str:
    return await deaf()


async def test_a_step_may_return_what_it_has_when_its_time_is_over(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(unheard) == "what it had"


# --- cancels --------------------------------------------------------------------------------------


@workflow
async def working() -> None:
    await endless()


@workflow
async def gives_up() -> str:
    try:
        async with asyncio.timeout(0.02):
            await endless()
    except TimeoutError:
        return "gave up"
    return "not reached"


@workflow
async def takes_the_first() -> str:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(endless())
        await onward.sleep("10ms")
        running.cancel()
    return "went on"


@pytest.mark.parametrize("calling", [gives_up, takes_the_first])
async def test_a_step_that_its_body_gives_up_is_stopped(
    app: App, calling: onward.Workflow[[], str]
) -> None:
    async with app, app.worker():
        run = await app.start(calling)

        assert await run.result(timeout="60s") in ("gave up", "went on")
        await until(lambda: Seen.told == ["endless begins", "endless is stopped"])
        kinds = [row.kind for row in await run.history()]
        assert [kind for kind in kinds if kind != "clock"] == ["timer"]  # a slow machine adds one


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_reaches_the_code_of_a_step(app: App, force: bool) -> None:
    async with app, app.worker():
        run = await app.start(working)
        await until(lambda: bool(Seen.told))

        assert await run.cancel(force=force)

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await until(lambda: Seen.told == ["endless begins", "endless is stopped"])
        await check_database(app)


@workflow
async def retries_later() -> None:
    await fails_first.options(retry=Retry(delay="1h", max_delay="1h"))()


@step
async def fails_first() -> None:
    Seen.told.append("fails")
    raise LookupError("no")


async def test_a_cancel_ends_a_run_that_waits_to_try_a_step_again(app: App) -> None:
    async with app, app.worker():
        run = await app.start(retries_later)
        await until_state(run, "waiting")
        assert await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        assert Seen.told == ["fails"]


async def test_a_worker_that_leaves_stops_its_steps_and_they_are_done_again(app: App) -> None:
    async with app:
        async with app.worker() as worker:
            object.__setattr__(
                worker.session._options, "drain", 10_000
            )  # it waits for them no longer
            run = await app.start(working)
            await until(lambda: bool(Seen.told))
        assert Seen.told == ["endless begins", "endless is stopped"]
        assert await run.state() == "ready"
        async with app.worker():
            await until(lambda: Seen.told[2:] == ["endless begins"])
            assert await run.cancel()
        assert [row.kind for row in await run.history()] == ["cancel"]
        await check_database(app)


# --- heartbeats and progress ----------------------------------------------------------------------


@step
async def reports() -> str:
    here = onward.current()
    here.progress({"done": 1})
    here.heartbeat({"done": 2})
    here.heartbeat()
    return f"{here.step} {here.attempt}"


@step
def reports_in_a_thread() -> str:
    here = onward.current()
    here.progress({"done": 1})
    here.heartbeat({"done": 2})
    return f"{here.step} {here.attempt}"


@workflow
async def reporting(*, thread: bool) -> str:
    told = await (reports_in_a_thread if thread else reports)()
    await go.wait()
    return told


@pytest.mark.parametrize("thread", [False, True])
async def test_how_far_a_step_is_can_be_seen_and_the_last_word_wins(app: App, thread: bool) -> None:
    async with app, app.worker():
        run = await app.start(reporting, thread=thread)

        async def has_come() -> bool:
            return bool((await run.info()).progress == {"done": 2})

        await until(has_come)
        await run.signal(go)
        name = "reports_in_a_thread" if thread else "reports"
        assert await run.result(timeout="60s") == f"{name} 1"
        assert (await run.info()).progress == {"done": 2}


@step(retry=ONCE)
async def reports_badly() -> None:
    onward.current().heartbeat(object())


@workflow
async def reporting_badly() -> str:
    try:
        await reports_badly()
    except Unencodable as refused:
        return str(refused)
    return "not reached"


async def test_progress_that_cannot_be_kept_is_an_error_of_the_step(memory: App) -> None:
    async with memory, memory.worker():
        assert (await memory.run(reporting_badly)).startswith("progress is an object")


@workflow
async def body_beats() -> Any:
    onward.current().heartbeat()


async def test_a_body_has_no_heartbeat(memory: App) -> None:
    async with memory, memory.worker():
        with pytest.raises(RunFailed, match="Call it in a step"):
            await memory.run(body_beats)


async def test_there_is_no_current_run_outside() -> None:
    with pytest.raises(NotInBody):
        onward.current()


@pytest.mark.parametrize("bad", ["soon", -1, float("nan"), True])
def test_a_timeout_that_cannot_be_meant_is_refused_at_the_line(bad: Any) -> None:
    with pytest.raises(BadInput):
        endless.options(timeout=bad)
    with pytest.raises(BadInput):
        step(timeout=bad)(hang)
