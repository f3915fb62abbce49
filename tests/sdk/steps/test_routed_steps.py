"""Steps that are sent elsewhere: runs of their own, which to the body are steps like any other."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

import onward
from onward import (
    App,
    Fatal,
    Retry,
    Retryable,
    Run,
    Signal,
    register_error,
    step,
    workflow,
)
from onward.errors import BadInput, RunCancelled, RunFailed, TimedOut
from onward.telemetry.tracebacks import traceback_text
from tests.kit.watching import check_database, until, until_state

AT_ONCE = Retry(attempts=3, delay=0, jitter=0)
go = Signal("go")


@register_error
class SoldOut(Exception):
    """A registered error."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(item)
        self.left = left


@dataclass
class Receipt:
    """A result with a shape."""

    item: str
    cents: int


class Seen:
    """What happened outside; a test resets it."""

    told: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other
    now = 0
    most = 0


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Seen.told.clear()
    Seen.now = Seen.most = 0


@step(retry=AT_ONCE)
async def sell(item: str) -> Receipt:
    Seen.told.append(item)
    match item:
        case "gone":
            raise SoldOut(item, 0)
        case "broken":
            raise LookupError(item)
        case "fatal":
            raise Fatal(item)
        case "late" if len(Seen.told) < 3:
            raise Retryable(item, after="1ms")
        case "slow":
            await asyncio.sleep(60)
        case "stopped":
            raise asyncio.CancelledError(item)
    return Receipt(item, len(item))


def told(outcome: Any) -> str:
    error = outcome
    if not isinstance(error, BaseException):
        return repr(outcome)
    detail = getattr(error, "left", None)
    return f"{type(error).__qualname__} {error} {detail} {error.__cause__!r}"


@workflow
async def sale(item: str, *, elsewhere: bool) -> str:
    route = {"queue": "shop"} if elsewhere else {}
    try:
        result: Any = await sell.options(timeout="30ms", **route)(item)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - that is the question
        result = error
    Seen.told.append(told(result))
    await go.wait()
    return told(result)


TRIES = {"tea": 1, "gone": 3, "broken": 3, "fatal": 1, "late": 3, "slow": 3, "stopped": 3}


async def test_results_errors_and_tries_are_those_of_a_step_here(app: App) -> None:
    async with app:
        queues = ["default", "shop"]
        runs: dict[tuple[str, bool], Run[str]] = {}
        live: dict[tuple[str, bool], str] = {}
        async with app.worker(queues=queues):
            for item, tries in TRIES.items():
                for elsewhere in (False, True):
                    Seen.told.clear()
                    run = runs[item, elsewhere] = await app.start(sale, item, elsewhere=elsewhere)
                    await until(lambda tries=tries: len(Seen.told) == tries + 1)  # type: ignore[misc]
                    live[item, elsewhere] = Seen.told[-1]
                    assert Seen.told.count(item) == tries
                    await until_state(run, "waiting")
        Seen.told.clear()
        async with app.worker(queues=queues):  # a new one has to replay
            for key, run in runs.items():
                await run.signal(go)
                assert await run.result(timeout="60s") == live[key]
        assert not {*TRIES} & {*Seen.told}
        assert all(live[item, False] == live[item, True] for item in TRIES)
        await check_database(app)


# --- where ----------------------------------------------------------------------------------------


@step(queue="far")
async def far(n: int) -> str:
    here = onward.current()
    return f"{here.queue} {here.workflow} {here.step} {n}"


@step
def anywhere(n: int) -> str:
    return f"{onward.current().queue} {n}"


@step(tags=["gpu", "tpu"])
async def picky() -> str:
    return "done"


@workflow
async def sends(n: int) -> list[str]:
    return [await far(n), await anywhere.options(queue="far")(n), await anywhere(n)]


@workflow
async def sends_by_tag() -> str:
    return await picky()


async def test_a_step_is_done_by_a_worker_of_its_queue(app: App) -> None:
    async with app, app.worker(), app.worker(queues=["far"]):
        assert await app.run(sends, 7) == ["far step far far 7", "far 7", "default 7"]


async def test_a_step_waits_until_a_worker_serves_its_queue(app: App) -> None:
    async with app, app.worker():
        run = await app.start(sends, 1)
        await until_state(run, "waiting")
        [sent] = await app.runs(queue="far")
        assert (sent.kind, sent.name, sent.parent, sent.state) == ("step", "far", run.uid, "ready")
        assert [each.run.uid for each in await app.unserved()] == [sent.uid]

        async with app.worker(queues=["far"]):
            assert (await run.result(timeout="60s"))[0] == "far step far far 1"
        assert (await (await app.get(sent.id)).info()).state == "succeeded"


async def test_a_step_is_done_by_a_worker_with_one_of_its_tags(app: App) -> None:
    async with app, app.worker(), app.worker(tags=["cpu"]):
        run = await app.start(sends_by_tag)
        await until_state(run, "waiting")
        [sent] = [info for info in await app.runs() if info.kind == "step"]
        assert (sent.state, sent.tags) == ("ready", ("gpu", "tpu"))

        async with app.worker(tags=["tpu"]):
            assert await run.result(timeout="60s") == "done"


async def test_a_step_that_waits_for_another_worker_holds_no_slot(memory: App) -> None:
    async with memory, memory.worker(slots=1):
        waiting = await memory.start(sends, 1)
        await until_state(waiting, "waiting")

        assert await memory.run(quick) == "quick"


@workflow
async def quick() -> str:
    return "quick"


@workflow
async def sends_keyed(n: int) -> list[str]:
    return list(await asyncio.gather(*(far.options(key=f"k{i}")(i) for i in range(n))))


async def test_a_sent_step_with_a_key_is_found_by_it(app: App) -> None:
    async with app, app.worker(queues=["default", "far"]):
        run = await app.start(sends_keyed, 3)

        assert len(await run.result(timeout="60s")) == 3
        names = sorted(row.identity for row in await run.history())
        assert names == ["far=k0", "far=k1", "far=k2"]


@step(queue="far")
async def slowly(name: str) -> str:
    Seen.told.append(name)
    while not Seen.now:  # noqa: ASYNC110 - a test lets it go
        await asyncio.sleep(0.002)
    return name


@workflow
async def waits_long(name: str) -> str:
    return await slowly(name)


async def test_a_worker_that_leaves_repeats_no_step_that_is_done_elsewhere(app: App) -> None:
    async with app, app.worker(queues=["far"]):
        async with app.worker():
            run = await app.start(waits_long, "a")
            await until(lambda: Seen.told == ["a"])
        async with app.worker():
            Seen.now = 1
            assert await run.result(timeout="60s") == "a"
        assert Seen.told == ["a"]
        await check_database(app)


async def test_a_step_whose_worker_leaves_is_done_by_another(app: App) -> None:
    async with app, app.worker():
        async with app.worker(queues=["far"]) as worker:
            object.__setattr__(worker.session._options, "drain", 10_000)
            run = await app.start(waits_long, "a")
            await until(lambda: Seen.told == ["a"])
        async with app.worker(queues=["far"]):
            Seen.now = 1
            assert await run.result(timeout="60s") == "a"
        assert Seen.told == ["a", "a"]
        assert [row.attempt for row in await run.history()] == [1]
        await check_database(app)


# --- cancels --------------------------------------------------------------------------------------


@step(queue="far")
async def endless() -> None:
    Seen.told.append("begins")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        Seen.told.append("is stopped")
        raise


@workflow
async def waits_for_it() -> None:
    await endless()


@workflow
async def gives_it_up() -> str:
    try:
        async with asyncio.timeout(0.05):
            await endless()
    except TimeoutError:
        return "gave up"
    return "not reached"


@pytest.mark.parametrize("force", [False, True])
async def test_a_cancel_of_the_run_reaches_the_step_elsewhere(app: App, force: bool) -> None:
    async with app, app.worker(), app.worker(queues=["far"]):
        run = await app.start(waits_for_it)
        await until(lambda: bool(Seen.told))
        assert await run.cancel(force=force)

        with pytest.raises(RunCancelled):
            await run.result(timeout="60s")
        await until(lambda: Seen.told == ["begins", "is stopped"])
        [sent] = await app.runs(queue="far")
        await until_state(await app.get(sent.id), "cancelled")
        await check_database(app)


async def test_a_step_elsewhere_that_its_body_gives_up_is_stopped(app: App) -> None:
    async with app, app.worker(), app.worker(queues=["far"]):
        assert await app.run(gives_it_up) == "gave up"
        [sent] = await app.runs(queue="far")
        await until_state(await app.get(sent.id), "cancelled")
        assert Seen.told in (["begins", "is stopped"], [])


async def test_a_routed_step_that_no_worker_took_in_time_never_begins(app: App) -> None:
    async with app, app.worker():
        assert await app.run(gives_it_up) == "gave up"
        [sent] = await app.runs(queue="far")
        async with app.worker(queues=["far"]):
            await until_state(await app.get(sent.id), "cancelled")
        assert Seen.told == []


@workflow
async def hears_of_it() -> str:
    try:
        await endless()
    except RunCancelled as cancelled:
        return cancelled.state
    return "not reached"


async def test_a_body_hears_of_a_step_run_that_was_cancelled(app: App) -> None:
    async with app, app.worker(queues=["default", "far"]):
        run = await app.start(hears_of_it)
        await until(lambda: bool(Seen.told))
        [sent] = await app.runs(queue="far")
        await app.cancel(sent.id)

        assert await run.result(timeout="60s") == "cancelled"


# --- limits ---------------------------------------------------------------------------------------


async def busy(n: int) -> int:
    Seen.now += 1
    Seen.most = max(Seen.most, Seen.now)
    await asyncio.sleep(0.003)
    Seen.now -= 1
    return n


@step(limit=2)
async def two_at_a_time(n: int) -> int:
    return await busy(n)


@step
async def unlimited(n: int) -> int:
    return await busy(n)


@workflow
async def crowd(count: int) -> int:
    return sum(await asyncio.gather(*(two_at_a_time(n) for n in range(count))))


@workflow
async def crowd_by_options(count: int, limit: int) -> int:
    limited = unlimited.options(limit=limit)
    return sum(await asyncio.gather(*(limited(n) for n in range(count))))


async def test_a_limit_holds_over_all_workers_and_runs(app: App, url: str) -> None:
    async with app, AsyncExitStack() as stack:
        for _ in range(3):
            other = app if url == ":memory:" else App(url)
            await stack.enter_async_context(other.worker())
        runs = [await app.start(crowd, 8) for _ in range(2)]

        assert [await run.result(timeout="60s") for run in runs] == [28, 28]
        assert Seen.most == 2
        await check_database(app)


async def test_a_limit_that_a_call_asks_for_holds(app: App) -> None:
    async with app, app.worker(), app.worker():
        assert await app.run(crowd_by_options, 6, 1) == 15
        assert Seen.most == 1
        assert await app.run(crowd_by_options, 6, 3) == 15
        assert Seen.most <= 3


@step(limit=1, retry=Retry(attempts=2, delay="50ms", jitter=0))
async def fails_once(n: int) -> int:
    await busy(n)
    if onward.current().attempt == 1:
        raise LookupError("again")
    return n


@workflow
async def crowd_of_failures(count: int) -> int:
    return sum(await asyncio.gather(*(fails_once(n) for n in range(count))))


async def test_a_limited_step_that_waits_to_be_tried_again_takes_no_place(app: App) -> None:
    async with app, app.worker():
        run = await app.start(crowd_of_failures, 4)

        assert await run.result(timeout="60s") == 6
        assert Seen.most == 1


# --- refusals -------------------------------------------------------------------------------------


class Shop:
    """Steps that are methods."""

    @step(queue="far")
    async def send(self, item: str) -> str:
        return item

    @step
    async def greet(self, whom: str) -> str:
        return whom


def test_a_method_cannot_be_sent_elsewhere() -> None:
    with pytest.raises(BadInput, match="is a method"):
        Shop().send  # noqa: B018 - that is the test
    routes: list[dict[str, Any]] = [{"queue": "far"}, {"tags": ["gpu"]}, {"limit": 1}]
    for options in routes:
        with pytest.raises(BadInput, match="is a method"):
            Shop().greet.options(**options)


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_a_limit_that_cannot_be_meant_is_refused(limit: Any) -> None:
    with pytest.raises(BadInput, match="limit"):
        step(limit=limit)(busy)
    with pytest.raises(BadInput, match="limit"):
        unlimited.options(limit=limit)


@pytest.mark.parametrize("options", [{"queue": ""}, {"tags": ["a b"]}, {"tags": "gpu"}])
def test_a_route_that_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        step(**options)(busy)


@workflow
async def two_of_a_name() -> str:
    return await far(1)


async def test_of_two_steps_of_a_name_the_one_that_is_sent_is_done_elsewhere(memory: App) -> None:
    step(name="far")(busy)
    try:
        async with memory, memory.worker(queues=["default", "far"]):
            assert (await memory.run(two_of_a_name)).startswith("far ")
    finally:
        onward.sdk.step.registered["far"].pop()


@workflow
async def crashes() -> str:
    try:
        await sell.options(queue="shop", retry=Retry(attempts=1))("broken")
    except LookupError as failed:
        return f"{failed!r} {'in sell' in traceback_text(failed)}"
    return "not reached"


async def test_the_traceback_of_a_step_elsewhere_is_that_of_its_own_code(memory: App) -> None:
    async with memory, memory.worker(queues=["default", "shop"]):
        assert await memory.run(crashes) == "LookupError('broken') True"


async def test_a_step_run_that_fails_says_why(memory: App) -> None:
    async with memory, memory.worker(queues=["default", "shop"]):
        await memory.run(crashes)
        [sent] = await memory.runs(queue="shop")

        with pytest.raises(RunFailed, match="LookupError: broken"):
            await (await memory.get(sent.id)).result(timeout="60s")


@step(queue="far", timeout="20ms", retry=Retry(attempts=1))
def slow_in_a_thread() -> None:
    here = onward.current()
    while True:
        here.heartbeat()


@workflow
async def too_slow() -> str:
    try:
        await slow_in_a_thread()
    except TimedOut as late:
        return str(late)
    return "not reached"


async def test_a_thread_elsewhere_that_takes_too_long_is_stopped(memory: App) -> None:
    async with memory, memory.worker(queues=["default", "far"]):
        assert "step 'slow_in_a_thread' took longer than 20ms" in await memory.run(too_slow)
