"""Waits: sleeps, signals and cancels, in every order."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, Signal, step, workflow
from onward.errors import NotFound, NotInBody, RunCancelled, RunFailed
from tests.kit.watching import until_state

if TYPE_CHECKING:
    from onward import Run

number = Signal("number", int)


@step
async def note(text: str) -> str:
    return text


@workflow
async def collect(count: int) -> list[int]:
    return [await number.wait() for _ in range(count)]


@workflow
async def impatient() -> str:
    try:
        await number.wait(timeout="20ms")
    except TimeoutError:
        return "nothing came"
    return "something came"


@workflow
async def sleeper(text: str) -> str:
    await onward.sleep(text)
    await asyncio.sleep(0)
    return f"slept {text}"


@workflow
async def careful() -> str:
    try:
        await number.wait()
    finally:
        await note("cleaned up")
    return "not reached"


@workflow
async def stubborn() -> str:
    try:
        await number.wait()
    except asyncio.CancelledError:
        return await note("carried on")
    return "not reached"


async def is_waiting(run: Run[Any]) -> None:
    while await run.state() != "waiting":  # noqa: ASYNC110 - the worker has no one to tell us
        await asyncio.sleep(0.005)


async def test_signals_come_in_order_before_and_during_the_wait(app: App) -> None:
    async with app, app.worker():
        run = await app.start(collect, 4)
        await run.signal(number, 1)
        await run.signal(number, 2)
        await is_waiting(run)
        await run.signal("number", 3)
        await app.signal(run.uid, number, 4)

        assert await run.result(timeout="60s") == [1, 2, 3, 4]


async def test_a_signal_that_no_run_can_get_is_an_error(app: App) -> None:
    async with app:
        with pytest.raises(NotFound, match="'missing'"):
            await app.signal("missing", number, 1)


async def test_a_signal_is_waited_for_no_longer_than_asked(app: App) -> None:
    async with app, app.worker():
        assert await app.run(impatient) == "nothing came"


@pytest.mark.parametrize("time", ["0s", "1ms", "120ms"])
async def test_a_sleep_of_any_length_ends(app: App, time: str) -> None:
    async with app, app.worker():
        assert await app.run(sleeper, time) == f"slept {time}"


async def test_a_sleeper_holds_no_slot(app: App) -> None:
    async with app, app.worker(slots=1):
        asleep = await app.start(sleeper, "1h")
        await is_waiting(asleep)

        assert await app.run(sleeper, "1ms") == "slept 1ms"


async def test_a_cancelled_run_cleans_up_with_durable_calls(app: App) -> None:
    async with app, app.worker():
        run = await app.start(careful)
        await is_waiting(run)

        assert await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        assert await run.state() == "cancelled"
        assert [row.name for row in await run.history() if row.state == "succeeded"] == [
            "cancel",
            "note",
        ]


async def test_a_cancelled_body_is_cancelled_whatever_it_returns(app: App) -> None:
    async with app, app.worker():
        run = await app.start(stubborn)
        await is_waiting(run)
        await run.cancel()

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        assert "carried on" in [row.value for row in await run.history() if row.kind == "step"]
        assert await run.cancel() == "too_late"


# --- what has no place in a body ------------------------------------------------------------------


@workflow
async def forbidden(what: str) -> None:
    match what:
        case "a thread":
            await asyncio.to_thread(print)
        case "a socket":
            await asyncio.open_connection("127.0.0.1", 1)
        case "a process":
            await asyncio.create_subprocess_exec("true")
        case "bare coroutines":
            for each in asyncio.as_completed([note("a")]):
                await each
        case "a task factory":
            loop = asyncio.get_running_loop()
            loop.set_task_factory(lambda loop, code: asyncio.Task(code, loop=loop))
        case _:
            while True:  # noqa: ASYNC110 - that is the test
                await asyncio.sleep(0)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("a thread", "loop.run_in_executor in a workflow body"),
        ("a socket", "in a workflow body reaches outside the run"),
        ("a process", "loop.subprocess_exec in a workflow body"),
        ("bare coroutines", "Use onward.as_completed, or pass tasks"),
        ("a task factory", "would create tasks that the run cannot replay. Remove the call"),
    ],
)
async def test_what_would_not_replay_is_refused_at_the_line(app: App, what: str, says: str) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match=says):
            await app.run(forbidden, what)


lock = asyncio.Lock()


@workflow
async def locked() -> str:
    async with lock:
        return "not reached"


async def test_a_lock_that_others_use_is_refused_at_the_line(app: App) -> None:
    async with app, app.worker(), lock:
        waiting = asyncio.ensure_future(lock.acquire())  # now the lock belongs to the host's loop
        await asyncio.sleep(0)

        with pytest.raises(RunFailed, match="bound to a different event loop"):
            await app.run(locked)
        waiting.cancel()


async def test_a_body_that_spins_is_stopped_and_named(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.body.runloop.MAX_DRAIN", 1000)
    async with app, app.worker():
        with pytest.raises(RunFailed, match=r"Spinning: forbidden .*test_waits"):
            await app.run(forbidden, "nothing")


@workflow
async def stuck(rounds: int) -> None:
    gate = asyncio.Event()  # it is never set
    async with asyncio.TaskGroup() as group:
        group.create_task(gate.wait())
        for _ in range(rounds):
            await onward.sleep("1ms")


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("warm", [0, 100])
async def test_a_body_that_nothing_can_wake_fails_and_is_named(
    app: App, rounds: int, warm: int
) -> None:
    async with app, app.worker(warm=warm):
        with pytest.raises(
            RunFailed, match=r"it is waiting in .*test_waits.py, line \d+: .*(gate|group)"
        ):
            await app.run(stuck, rounds)


@workflow
async def patient() -> str:
    gate = asyncio.Event()
    try:
        await asyncio.gather(gate.wait(), onward.sleep("1h"))
    except asyncio.CancelledError:
        await gate.wait()
    return "never"


async def test_a_cleanup_that_nothing_can_wake_ends_with_its_grace(app: App) -> None:
    async with app, app.worker():
        run = await app.start(patient)
        await until_state(run, "waiting")
        await run.cancel(grace="50ms")
        with pytest.raises(RunCancelled):
            await run.result(timeout="30s")


@workflow
async def until_its_deadline() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        onward.current().attributes["tidy"] = True


async def test_a_body_that_only_its_deadline_can_wake_may_wait_for_that(app: App) -> None:
    async with app, app.worker():
        run = await app.start(until_its_deadline.options(deadline="50ms"))
        with pytest.raises(RunCancelled, match="timed out"):
            await run.result(timeout="30s")
        assert (await run.info()).attributes == {"tidy": True}


async def test_a_signal_cannot_be_waited_for_outside_a_run() -> None:
    with pytest.raises(NotInBody, match="Call it from a workflow"):
        await number.wait()
