"""Retries: which errors are tried again, how often, how long between, and who decides it."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Fatal, Retry, Retryable, Signal, StepFailed, register_error, step, workflow
from onward.engine.policies import read_limits, read_policy, write_limits, write_policy
from onward.errors import NotInBody, RunFailed, TimedOut, Unencodable
from tests.kit.watching import until, until_state

if TYPE_CHECKING:
    from onward.engine.views import HistoryEvent

AT_ONCE = Retry(attempts=3, delay=0, jitter=0)
ONCE = Retry(attempts=1)


class Shaky(ConnectionError):
    """An error that is not registered."""


@register_error
class Refused(Exception):
    """A registered error."""


class Stubborn(Fatal):
    """A kind of fatal error."""


go = Signal("go", int)


class Tries:
    """How often something was tried; a test resets it."""

    made = 0


@pytest.fixture(autouse=True)
def _no_tries() -> None:
    Tries.made = 0


def error_of(kind: str) -> BaseException:
    match kind:
        case "shaky":
            return Shaky("shaky")
        case "refused":
            return Refused("refused")
        case "fatal":
            return Fatal("fatal")
        case "stubborn":
            return Stubborn("stubborn")
        case "retryable":
            return Retryable("later")
        case "fatal in a group":
            return ExceptionGroup("both", [Shaky("shaky"), ExceptionGroup("one", [Fatal("no")])])
        case "shaky in a group":
            return ExceptionGroup("both", [Shaky("shaky"), Refused("refused")])
        case _:
            return LookupError(kind)


@step(retry=AT_ONCE)
async def attempt(kind: str) -> int:
    Tries.made += 1
    raise error_of(kind)


@step
async def plain(kind: str) -> int:
    Tries.made += 1
    raise error_of(kind)


POLICIES = {
    "all": AT_ONCE,
    "only OSError": replace(AT_ONCE, only=OSError),
    "never OSError": replace(AT_ONCE, never=OSError),
    "only by name": replace(AT_ONCE, only=("OSError", f"{__name__}.Refused")),
    "only Refused": replace(AT_ONCE, only=[Refused]),
}


@workflow
async def tries(kind: str, policy: str) -> int:
    try:
        await attempt.options(retry=POLICIES[policy])(kind)
    except Exception:  # noqa: BLE001 - how often it was tried is the question
        return Tries.made
    return 0


@workflow
async def tries_elsewhere(kind: str, policy: str) -> int:
    try:
        await attempt.options(retry=POLICIES[policy], queue="default")(kind)
    except Exception:  # noqa: BLE001 - how often it was tried is the question
        return Tries.made
    return 0


@workflow
async def itself(kind: str) -> None:
    Tries.made += 1
    raise error_of(kind)


@workflow
async def by_its_step(kind: str) -> None:
    await attempt.options(retry=ONCE)(kind)


KINDS = [
    ("shaky", "all", 3),
    ("shaky", "only OSError", 3),
    ("shaky", "never OSError", 1),
    ("shaky", "only by name", 3),
    ("shaky", "only Refused", 1),
    ("refused", "only OSError", 1),
    ("refused", "only Refused", 3),
    ("refused", "only by name", 3),
    ("retryable", "only OSError", 3),
    ("fatal", "all", 1),
    ("stubborn", "all", 1),
    ("fatal in a group", "all", 1),
    ("shaky in a group", "all", 3),
]


@pytest.mark.parametrize(("kind", "policy", "count"), KINDS)
async def test_the_types_of_errors_decide_what_is_tried_again(
    memory: App, kind: str, policy: str, count: int
) -> None:
    async with memory, memory.worker():
        assert await memory.run(tries, kind, policy) == count


async def test_they_decide_it_where_a_step_was_sent_too(app: App) -> None:
    async with app, app.worker():
        for kind, policy, count in KINDS:
            Tries.made = 0
            assert await app.run(tries_elsewhere, kind, policy) == count, (kind, policy)


@pytest.mark.parametrize("failing", [itself, by_its_step])
async def test_they_decide_it_for_a_run_as_a_whole_whose_policy_was_stored(
    app: App, failing: onward.Workflow[[str], None]
) -> None:
    async with app, app.worker():
        for kind, policy, count in KINDS:
            Tries.made = 0
            run = await app.start(failing.options(retry=POLICIES[policy]), kind)
            with pytest.raises((RunFailed, Refused, ExceptionGroup)):
                await run.result(timeout="60s")
            assert Tries.made == count, (kind, policy)


@pytest.mark.parametrize("policy", [*POLICIES.values(), Retry(attempts=None, within="7d")])
def test_a_policy_is_the_same_after_storage(policy: Retry) -> None:
    assert read_policy(write_policy(policy)) == policy
    assert read_limits(write_limits(policy, 7) or "") == (policy, 7)
    assert read_limits(write_limits(None, 7) or "") == (None, 7)
    assert write_limits(None, None) is None


# --- who decides ----------------------------------------------------------------------------------


@workflow
async def says_nothing(kind: str) -> None:
    await plain(kind)


@workflow(retry=Retry(attempts=2, delay=0))
async def says_twice(kind: str) -> None:
    await plain(kind)


@workflow(retry=Retry(attempts=2, delay=0))
async def sends_it_twice(kind: str) -> None:
    await plain.options(queue="default")(kind)


@workflow(retry=Retry(attempts=2, delay=0))
async def is_overruled(kind: str) -> None:
    await attempt(kind)


@pytest.mark.parametrize(
    ("calling", "count"),
    [(says_nothing, 4), (says_twice, 2), (sends_it_twice, 2), (is_overruled, 3)],
)
async def test_the_step_decides_before_its_workflow_and_that_before_its_worker(
    memory: App, calling: onward.Workflow[[str], None], count: int
) -> None:
    async with memory, memory.worker(retry=Retry(attempts=4, delay=0)):
        with pytest.raises(RunFailed):
            await memory.run(calling, "shaky")
        assert Tries.made == count


# --- how long -------------------------------------------------------------------------------------


@workflow
async def waits_between() -> None:
    await plain.options(retry=Retry(attempts=4, delay="2ms", factor=3, jitter=1))("shaky")


async def test_chance_only_lengthens_the_wait_and_the_time_is_recorded(app: App) -> None:
    async with app, app.worker():
        run = await app.start(waits_between)
        with pytest.raises(RunFailed):
            await run.result(timeout="60s")

        waits = [row.due - row.closed_at for row in await tried(run) if row.due and row.closed_at]
        for exact, wait in zip([2, 6, 18], waits, strict=True):
            length = timedelta(milliseconds=exact)
            assert length <= wait <= 2 * length


async def tried(run: onward.Run[None]) -> list[HistoryEvent]:
    """Return all attempts of the steps of a run, in order."""
    rows = [row for row in await run.history() if row.kind == "step"]
    return sorted(rows, key=lambda row: row.attempt)


async def test_every_attempt_is_in_history_with_its_error(app: App) -> None:
    async with app, app.worker():
        run = await app.start(is_overruled, "refused")
        with pytest.raises(Refused):
            await run.result(timeout="60s")

        rows = await tried(run)
        assert [(row.attempt, row.state) for row in rows] == [
            (1, "failed"),
            (2, "failed"),
            (3, "failed"),
        ]
        for row in rows:
            assert row.error is not None
            assert row.error.type.endswith(".Refused")
            assert "error_of(kind)" in row.error.traceback


@step
async def asks_for_a_while(after: str) -> int:
    Tries.made += 1
    if Tries.made < 3:
        raise Retryable("not yet", after=after)
    return Tries.made


@workflow
async def patient(after: str) -> int:
    return await asks_for_a_while(after)


async def test_a_step_that_names_its_wait_gets_exactly_that(app: App) -> None:
    async with app, app.worker():
        run = await app.start(patient, "7ms")

        assert await run.result(timeout="60s") == 3
        rows = [row for row in await run.history() if row.state == "failed"]
        assert [row.due - row.closed_at for row in rows if row.due and row.closed_at] == [
            timedelta(milliseconds=7)
        ] * 2


# --- all attempts together ------------------------------------------------------------------------


@workflow
async def soon_given_up() -> None:
    await plain.options(retry=Retry(attempts=None, delay="30ms", factor=1, within="80ms"))("shaky")


async def test_attempts_end_when_the_next_would_begin_too_late(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed):
            await app.run(soon_given_up)
        assert 1 <= Tries.made <= 3


@step(retry=Retry(attempts=None, delay=0, within="60ms"))
async def hangs() -> None:
    Tries.made += 1
    await asyncio.Event().wait()


@workflow
async def hanging() -> str:
    try:
        await hangs()
    except TimedOut as late:
        return str(late)
    return "not reached"


async def test_an_attempt_under_way_ends_with_the_time_for_all(memory: App) -> None:
    async with memory, memory.worker():
        told = await memory.run(hanging)

        assert told.startswith("step 'hangs' took longer than 60ms")
        assert Tries.made == 1


@workflow
async def after_the_signal() -> str:
    try:
        await plain.options(retry=Retry(attempts=None, delay="300ms", factor=1, within="1s"))(
            "shaky"
        )
    except TimedOut:
        return "too late"
    except ConnectionError:
        return "given up"
    return "not reached"


async def test_a_retry_that_was_waited_for_too_long_is_not_begun(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(after_the_signal)
            await until(lambda: Tries.made > 0)
            await app.pause(run.id)
            await until_state(run, "paused")
        made = Tries.made
        await asyncio.sleep(1)  # the time that all attempts had is over
        async with app.worker():
            await app.resume(run.id)

            assert await run.result(timeout="60s") == "too late"
            assert Tries.made == made


@workflow
async def fails_always() -> None:
    Tries.made += 1
    raise Shaky("again")


async def test_all_attempts_of_a_run_together_take_no_longer_than_asked(app: App) -> None:
    async with app, app.worker():
        lasting = Retry(attempts=None, delay="30ms", factor=1, within="80ms")
        run = await app.start(fails_always.options(retry=lasting))

        with pytest.raises(RunFailed, match="again"):
            await run.result(timeout="60s")
        assert 1 <= Tries.made <= 3
        assert await run.state() == "failed"


# --- errors of every kind -------------------------------------------------------------------------


@step(retry=AT_ONCE)
async def odd(kind: str) -> object:
    Tries.made += 1
    return await misbehave(kind)


@step(retry=AT_ONCE)
def odd_in_a_thread(kind: str) -> object:
    Tries.made += 1
    match kind:
        case "exits":
            sys.exit(3)
        case "stops":
            return next(iter(()))
        case _:
            raise asyncio.CancelledError("itself")


async def misbehave(kind: str) -> object:
    match kind:
        case "exits":
            sys.exit(3)
        case "stops":
            raise StopAsyncIteration
        case "stops itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        case "waits for the stopped":
            task = asyncio.create_task(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
    raise asyncio.CancelledError("itself")


@workflow
async def odd_one(kind: str, *, thread: bool) -> str:
    try:
        await (odd_in_a_thread if thread else odd)(kind)
    except StepFailed as failed:
        return failed.type
    except (RuntimeError, StopAsyncIteration) as failed:
        return type(failed).__name__
    return "not reached"


@pytest.mark.parametrize(
    ("kind", "thread", "type_"),
    [
        ("exits", False, "SystemExit"),
        ("exits", True, "SystemExit"),
        ("stops", False, "StopAsyncIteration"),
        ("stops", True, "RuntimeError"),
        ("raises", False, "asyncio.exceptions.CancelledError"),
        ("raises", True, "asyncio.exceptions.CancelledError"),
        ("waits for the stopped", False, "asyncio.exceptions.CancelledError"),
    ],
)
async def test_whatever_a_step_raises_is_its_failure(
    memory: App, kind: str, thread: bool, type_: str
) -> None:
    async with memory, memory.worker():
        assert await memory.run(odd_one, kind, thread=thread) == type_
        assert Tries.made == 3


async def test_a_step_that_stops_its_own_task_fails(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.attempts.perform.LEAVE_SECONDS", 0.01)
    async with memory, memory.worker():
        told = await memory.run(odd_one, "stops itself", thread=False)

        assert told == "asyncio.exceptions.CancelledError"
        assert Tries.made == 3


@step(retry=AT_ONCE)
async def gives_what_cannot_be_kept() -> object:
    Tries.made += 1
    return object()


@workflow
async def keeps_nothing() -> str:
    try:
        await gives_what_cannot_be_kept()
    except Unencodable:
        return "refused"
    return "not reached"


async def test_a_result_that_cannot_be_kept_is_not_made_again(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(keeps_nothing) == "refused"
        assert Tries.made == 1


# --- what has no place in a step ------------------------------------------------------------------


@workflow
async def child() -> int:
    return 1


@step
async def inner(n: int) -> tuple[int, str | None]:
    return n, onward.current().step


@step
async def outer(what: str) -> tuple[int, str | None]:
    Tries.made += 1
    match what:
        case "sleep":
            await onward.sleep(0)
        case "sleep_until":
            await onward.sleep_until(onward.now())
        case "wait":
            await go.wait(timeout=0)
        case "wait by name":
            await onward.wait_signal("go", timeout=0)
        case "start":
            await onward.start(child)
        case "child":
            await child()
        case "go on":
            onward.continue_as_new()
    return await inner(7)


@workflow
async def within_a_step(what: str) -> str:
    try:
        n, name = await outer(what)
    except NotInBody as refused:
        return type(refused).__name__
    return f"{n} in {name}"


@pytest.mark.parametrize(
    "what", ["sleep", "sleep_until", "wait", "wait by name", "start", "child", "go on"]
)
async def test_a_step_can_make_no_durable_call_and_is_not_tried_again(
    memory: App, what: str
) -> None:
    async with memory, memory.worker():
        assert await memory.run(within_a_step, what) == "NotInBody"
        assert Tries.made == 1


async def test_a_step_in_a_step_is_a_plain_call(app: App) -> None:
    async with app, app.worker():
        run = await app.start(within_a_step, "nothing")

        assert await run.result(timeout="60s") == "7 in outer"
        assert [row.name for row in await run.history()] == ["outer"]
