"""Steps in threads: a bounded pool, and no way to be stopped but to listen."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.errors import RunCancelled, RunFailed, TimedOut
from onward.telemetry.tracebacks import traceback_text
from tests.kit.watching import check_database, until, until_state

if TYPE_CHECKING:
    from collections.abc import Iterator

ONCE = Retry(attempts=1)
PATIENCE = 60.0
go = Signal("go")
tenant: ContextVar[str] = ContextVar("tenant", default="none")


class Stage:
    """What threads and tests tell each other; every test has a fresh one."""

    begun: list[str]
    ended: list[str]
    now: int
    most: int
    let_go: threading.Event
    lock = threading.Lock()

    @classmethod
    def enter(cls, name: str) -> None:
        with cls.lock:
            cls.begun.append(name)
            cls.now += 1
            cls.most = max(cls.most, cls.now)

    @classmethod
    def leave(cls, name: str) -> None:
        with cls.lock:
            cls.now -= 1
            cls.ended.append(name)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Stage.begun, Stage.ended, Stage.now, Stage.most = [], [], 0, 0
    Stage.let_go = threading.Event()
    yield
    Stage.let_go.set()
    for _ in range(1000):  # no thread stays behind: it would take part in the next test
        if Stage.now:
            time.sleep(0.005)


@step
def held(name: str) -> str:
    """Hold a thread until the test lets it go."""
    Stage.enter(name)
    try:
        Stage.let_go.wait(PATIENCE)
    finally:
        Stage.leave(name)
    return name


@step
def beating(name: str) -> None:
    """Go on until a heartbeat says otherwise."""
    Stage.enter(name)
    here = onward.current()
    try:
        while not Stage.let_go.wait(0.002):
            here.heartbeat()
    except asyncio.CancelledError:
        Stage.ended.append("heard")
        raise
    finally:
        Stage.leave(name)


@step
def quick(name: str) -> str:
    Stage.enter(name)
    Stage.leave(name)
    return name


@workflow
async def too_late(name: str) -> str:
    try:
        await held.options(timeout="500ms", retry=ONCE)(name)
    except TimedOut:
        return f"{name} took too long"
    return "not reached"


@workflow
async def one_held(name: str) -> str:
    return await held(name)


@workflow
async def many(count: int) -> int:
    return len(await asyncio.gather(*(held(str(n)) for n in range(count))))


@workflow
async def one_beating(name: str) -> None:
    await beating(name)


@workflow
async def beats_too_long(name: str) -> str:
    try:
        await beating.options(timeout="500ms", retry=ONCE)(name)
    except TimedOut:
        return "timed out"
    return "not reached"


@workflow
async def one_quick(name: str) -> str:
    return await quick.options(timeout="500ms", retry=ONCE)(name)


async def test_no_more_steps_run_at_a_time_than_there_are_threads(memory: App) -> None:
    async with memory, memory.worker(threads=3):
        run = await memory.start(many, 8)
        await until(lambda: Stage.now == 3)
        Stage.let_go.set()

        assert await run.result(timeout="60s") == 8
        assert Stage.most == 3


async def test_a_step_that_listens_is_recorded_as_soon_as_its_thread_ends(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 60)
    async with memory, memory.worker():
        run = await memory.start(beats_too_long, "listener")

        assert await run.result(timeout="60s") == "timed out"
        assert Stage.ended == ["heard", "listener"]


async def test_a_step_that_does_not_listen_is_recorded_after_a_moment(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 0.03)
    async with app, app.worker():
        run = await app.start(too_late, "deaf")

        assert await run.result(timeout="60s") == "deaf took too long"
        assert Stage.now == 1
        Stage.let_go.set()
        await until(lambda: Stage.now == 0)
        await check_database(app)


async def test_the_thread_of_a_step_that_took_too_long_is_replaced(
    memory: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 0.01)
    async with memory, memory.worker(threads=1):
        first = await memory.start(too_late, "first")
        assert await first.result(timeout="60s") == "first took too long"

        assert await memory.run(one_quick, "second") == "second"
        assert Stage.begun == ["first", "second"]
        [facts] = [vars(each) for each in caplog.records if "thread_abandoned" in each.message]
        assert (facts["event"], facts["step"], facts["abandoned_threads"]) == (
            "step.thread_abandoned",
            "held",
            1,
        )


async def test_a_step_that_waits_for_a_thread_does_not_take_too_long(memory: App) -> None:
    async with memory, memory.worker(threads=1):
        first = await memory.start(one_held, "first")
        await until(lambda: Stage.begun == ["first"])
        second = await memory.start(at_once, "second")
        third = await memory.start(in_time, "third")
        await until_state(second, "running")
        await until_state(third, "running")
        await memory.run(naps)  # for longer than they may take
        Stage.let_go.set()

        assert await second.result(timeout="60s") == "second"
        assert await third.result(timeout="60s") == "third"
        assert await first.result(timeout="60s") == "first"


@workflow
async def naps() -> None:
    await onward.sleep("600ms")


@workflow
async def at_once(name: str) -> str:
    return await quick.options(timeout="500ms", retry=ONCE)(name)


@workflow
async def in_time(name: str) -> str:
    return await quick.options(retry=Retry(attempts=2, within="500ms"))(name)


async def test_a_step_that_waits_long_for_a_thread_says_what_holds_them(
    memory: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.WAIT_SECONDS", 0.01)
    async with memory, memory.worker(threads=2):
        holding = await memory.start(many, 4)
        waiting = await memory.start(one_quick, "waiting")
        await until(lambda: "step.waits_for_thread" in caplog.text)
        Stage.let_go.set()
        await waiting.result(timeout="60s")
        await holding.result(timeout="60s")

    [facts] = [vars(each) for each in caplog.records if "waits_for_thread" in each.message]
    assert (facts["event"], facts["held_by"]) == ("step.waits_for_thread", "held (2)")


async def test_a_worker_whose_threads_are_all_stuck_says_so_and_recovers(
    memory: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 0.01)
    async with memory, memory.worker(threads=1):
        for name in ("first", "second"):  # one in its place, and one in that of the first
            run = await memory.start(too_late, name)
            assert await run.result(timeout="60s") == f"{name} took too long"

        await until(lambda: caplog.text.count("step.thread_abandoned") == 2)
        with pytest.raises(RunFailed, match=r"2 threads .* still running: held \(2\)"):
            await memory.run(one_quick, "third")

        Stage.let_go.set()
        await until(lambda: Stage.now == 0)
        assert await memory.run(one_quick, "fourth") == "fourth"
        assert Stage.begun == ["first", "second", "fourth"]


@step(retry=Retry(attempts=2, delay=0), timeout="500ms")
def late_once() -> str:
    name = str(onward.current().attempt)
    Stage.enter(name)
    if name == "1":
        Stage.let_go.wait(PATIENCE)
        onward.current().counters.add("done")
    Stage.leave(name)
    return f"attempt {name}"


@workflow
async def overlapping() -> str:
    told = await late_once()
    return f"{told}, {len(onward.current().counters)} counted"


async def test_what_an_attempt_returns_that_took_too_long_counts_for_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 0.01)
    async with app, app.worker():
        run = await app.start(overlapping)

        assert await run.result(timeout="60s") == "attempt 2, 0 counted"
        Stage.let_go.set()
        await until(lambda: Stage.ended == ["2", "1"])
        states = sorted((row.attempt, row.state) for row in await run.history())
        assert states == [(1, "failed"), (2, "succeeded")]


@step(retry=Retry(attempts=2, delay=0), timeout="500ms")
def reports_late() -> None:
    here = onward.current()
    Stage.enter(str(here.attempt))
    if here.attempt == 1:
        Stage.let_go.wait(PATIENCE)
        here.progress("of the first attempt")
    else:
        here.progress("of the second attempt")
    Stage.leave(str(here.attempt))


@workflow
async def reporting() -> None:
    await reports_late()


async def test_an_attempt_that_took_too_long_is_heard_no_more(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.thread_call.GRACE_SECONDS", 0.01)
    async with memory:
        async with memory.worker():
            run = await memory.start(reporting)
            await run.result(timeout="60s")
            Stage.let_go.set()
            await until(lambda: Stage.ended == ["2", "1"])
        assert (await run.info()).progress == "of the second attempt"


# --- cancels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_reaches_a_thread_that_listens(app: App, force: bool) -> None:
    async with app, app.worker():
        run = await app.start(one_beating, "listener")
        await until(lambda: Stage.now == 1)
        assert await run.cancel(force=force)

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await until(lambda: Stage.ended == ["heard", "listener"])
        await check_database(app)


async def test_a_cancel_does_not_wait_for_a_thread_that_does_not_listen(memory: App) -> None:
    async with memory, memory.worker():
        run = await memory.start(one_held, "deaf")
        await until(lambda: Stage.now == 1)
        assert await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        assert Stage.now == 1
        Stage.let_go.set()


async def test_a_worker_leaves_without_a_thread_that_does_not_listen(memory: App) -> None:
    async with memory:
        async with memory.worker() as worker:
            object.__setattr__(worker.session._options, "drain", 10_000)
            run = await memory.start(one_held, "deaf")
            await until(lambda: Stage.now == 1)
        assert await run.state() == "ready"
        assert Stage.now == 1


@workflow
async def gives_up(name: str) -> str:
    try:
        async with asyncio.timeout(0.02):
            await held(name)
    except TimeoutError:
        return f"gave up {name}"
    return "not reached"


async def test_a_step_that_waits_for_a_thread_and_is_cancelled_never_begins(memory: App) -> None:
    async with memory, memory.worker(threads=1):
        holder = await memory.start(one_held, "holder")
        await until(lambda: Stage.now == 1)
        run = await memory.start(gives_up, "waiter")
        assert await run.result(timeout="60s") == "gave up waiter"
        Stage.let_go.set()

        assert await holder.result(timeout="60s") == "holder"
        assert await memory.run(one_held, "last") == "last"
        assert Stage.begun == ["holder", "last"]


# --- contexts -------------------------------------------------------------------------------------


@step
def who() -> str:
    name = tenant.get()
    tenant.set("changed in the thread")
    return name


@step
async def who_async() -> str:
    name = tenant.get()
    tenant.set("changed in the step")
    return name


@workflow
async def whose() -> list[str]:
    tenant.set("set in the body")
    return [await who(), await who_async(), await who(), tenant.get()]


async def test_a_step_has_a_copy_of_the_context_of_its_worker(memory: App) -> None:
    tenant.set("the worker's")
    async with memory, memory.worker():
        tenant.set("set too late")
        told = await memory.run(whose)

        assert told == ["the worker's", "the worker's", "the worker's", "set in the body"]
        assert tenant.get() == "set too late"


@step(retry=ONCE)
def awaits_in_a_thread() -> int:
    return asyncio.run(nested())


async def nested() -> int:
    await asyncio.sleep(0)
    with pytest.raises(onward.errors.NotInBody):
        await onward.sleep(0)
    return 7 if await quick("nested") == "nested" else 0


@workflow
async def loops_in_a_thread() -> int:
    return await awaits_in_a_thread()


async def test_a_step_in_a_thread_may_have_a_loop_of_its_own(memory: App) -> None:
    async with memory, memory.worker(threads=1):
        assert await memory.run(loops_in_a_thread) == 7


@step(retry=ONCE)
def breaks() -> None:
    raise LookupError("in the thread")


@workflow
async def broken() -> str:
    try:
        await breaks()
    except LookupError as failed:
        told = f"{failed!r} {'raise LookupError' in traceback_text(failed)}"
    await go.wait()
    return told


async def test_an_error_in_a_thread_comes_with_its_traceback_also_on_replay(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(broken)
            await until_state(run, "waiting")
        async with app.worker():
            await run.signal(go)
            assert await run.result(timeout="60s") == "LookupError('in the thread') True"
