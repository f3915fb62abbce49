"""Calling a human: for what, by whom, and without harm to anybody else."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import SECOND
from onward.core.run import REASONS, Reason, RunState
from onward.system.clock import spawn_thread
from onward.telemetry import Attention
from onward.telemetry.attention import AttentionLine, calls_for_attention
from onward.telemetry.reporter import Reporter
from onward.telemetry.scope import scope_now
from onward.testing.clock import EPOCH, VirtualClock
from tests.unit.telemetry.builders import a_log, a_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.telemetry.attention import OnAttention

CALLED_FOR = {
    (RunState.PAUSED, Reason.DIVERGENCE),
    (RunState.PAUSED, Reason.INTERNAL),
    (RunState.PAUSED, Reason.PRECONDITION),
    (RunState.FAILED, Reason.CRASHED),
    (RunState.FAILED, Reason.INTERNAL),
}


def an_attention(run: str = "order-7") -> Attention:
    return Attention(run, "uid-7", "order", "approval", "", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(("state", "reason"), list(product(RunState, [None, *Reason])))
@pytest.mark.parametrize("has_error", [False, True])
def test_a_human_is_called_for_what_only_a_human_can_fix(
    state: RunState, reason: Reason | None, *, has_error: bool
) -> None:
    approval = {(RunState.PAUSED, Reason.APPROVAL)} if has_error else set()
    is_called = calls_for_attention(state, reason, has_error=has_error)
    assert is_called == ((state, reason) in CALLED_FOR | approval)


def test_a_human_is_called_only_for_what_a_run_can_come_to() -> None:
    assert all(reason in REASONS[state] for state, reason in CALLED_FOR)


async def test_the_callback_is_told_which_run_needs_what() -> None:
    told: list[Attention] = []
    reporter = Reporter(VirtualClock(), on_attention=told.append)

    reporter.run_left(
        a_run(), RunState.PAUSED, Reason.DIVERGENCE, at=EPOCH + SECOND, message="step 2 differs"
    )
    await reporter.close()

    at = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert told == [Attention("order-7", "uid-7", "order", "divergence", "step 2 differs", at)]


async def test_the_message_is_by_default_what_the_error_says() -> None:
    told: list[Attention] = []
    reporter = Reporter(VirtualClock(), on_attention=told.append)

    reporter.run_left(a_run(), RunState.FAILED, Reason.INTERNAL, error=KeyError("row"))
    await reporter.close()

    assert told[0].message == "KeyError: 'row'"


async def test_an_error_that_cannot_be_shown_is_told_by_its_name() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    told: list[Attention] = []
    reporter = Reporter(VirtualClock(), on_attention=told.append)

    reporter.run_left(a_run(), RunState.FAILED, Reason.INTERNAL, error=Unspeakable())
    await reporter.close()

    assert "Unspeakable: <no message" in told[0].message


async def test_nobody_is_called_for_a_run_that_waits_or_ends_well() -> None:
    told: list[Attention] = []
    reporter = Reporter(VirtualClock(), on_attention=told.append)

    reporter.run_left(a_run(), RunState.WAITING)
    reporter.run_left(a_run(), RunState.SUCCEEDED)
    reporter.run_left(a_run(), RunState.PAUSED, Reason.OPERATOR)
    reporter.run_left(a_run(), None)
    await reporter.close()

    assert told == []


# --- the line -------------------------------------------------------------------------------------


async def test_an_async_callback_runs_on_the_loop() -> None:
    told: list[tuple[str, int]] = []

    async def callback(item: Attention) -> None:
        await asyncio.sleep(0)
        told.append((item.run_id, threading.get_ident()))

    line = AttentionLine(callback, spawn_thread)
    line.put(an_attention("one"))
    line.put(an_attention("two"))
    await line.close()

    assert told == [("one", threading.get_ident()), ("two", threading.get_ident())]


async def test_a_sync_callback_runs_in_a_thread_and_does_not_stop_the_loop() -> None:
    loop_goes_on, threads = threading.Event(), []

    def callback(item: Attention) -> None:
        assert loop_goes_on.wait(30)
        threads.append(threading.get_ident())

    line = AttentionLine(callback, spawn_thread)
    line.put(an_attention())
    await asyncio.sleep(0)
    loop_goes_on.set()
    await line.close(30)

    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


class Caller:
    """An object whose call is async."""

    def __init__(self) -> None:
        self.told: list[Attention] = []

    async def __call__(self, item: Attention) -> None:
        self.told.append(item)

    async def method(self, item: Attention) -> None:
        self.told.append(item)


@pytest.mark.parametrize(
    "shape",
    [
        lambda caller: caller,
        lambda caller: caller.method,
        lambda caller: partial(caller.method),
        lambda caller: lambda item: caller.method(item),
    ],
    ids=["object", "method", "partial", "lambda"],
)
async def test_whatever_gives_an_awaitable_is_awaited(shape: object) -> None:
    caller = Caller()
    assert callable(shape)
    line = AttentionLine(shape(caller), spawn_thread)
    line.put(an_attention())
    await line.close()

    assert caller.told == [an_attention()]


def _fails(item: Attention) -> None:
    raise ConnectionError("no line")


async def _fails_later(item: Attention) -> None:
    await asyncio.sleep(0)
    raise ConnectionError("no line")


def _exits(item: Attention) -> None:
    sys.exit("no line")


@pytest.mark.parametrize("faulty", [_fails, _fails_later, _exits])
async def test_a_callback_that_fails_is_logged_with_its_traceback_and_the_next_is_called(
    faulty: OnAttention,
) -> None:
    told: list[str] = []

    def callback(item: Attention) -> object:
        if item.run_id == "one":
            return faulty(item)
        told.append(item.run_id)
        return None

    line = AttentionLine(callback, spawn_thread)
    with a_log() as log:
        line.put(an_attention("one"))
        line.put(an_attention("two"))
        await line.close()

    assert told == ["two"]
    [record] = log.records
    assert (vars(record)["event"], vars(record)["run"]) == ("attention.failed", "one")
    assert f"in {faulty.__name__}" in record.getMessage()
    assert "no line" in record.getMessage()
    assert f"in {faulty.__name__}" in logging.Formatter().format(record).partition("\n")[2]


async def test_a_callback_that_is_too_slow_loses_what_comes_then_and_says_so_once() -> None:
    go_on, told = asyncio.Event(), []

    async def slow(item: Attention) -> None:
        told.append(item.run_id)
        await go_on.wait()

    line = AttentionLine(slow, None, max_waiting=2)
    with a_log() as log:
        for number in range(6):
            line.put(an_attention(f"run-{number}"))
            await asyncio.sleep(0)
        go_on.set()
        await line.close()

    assert told == ["run-0", "run-1", "run-2"]
    assert [(vars(each)["event"], vars(each)["run"]) for each in log.records] == [
        ("attention.dropped", "run-3")
    ]


async def test_an_app_that_closes_does_not_wait_for_ever() -> None:
    async def stuck(item: Attention) -> None:
        await asyncio.Event().wait()

    line = AttentionLine(stuck, None)
    with a_log() as log:
        for number in range(3):
            line.put(an_attention(f"run-{number}"))
        await line.close(seconds=0)

    assert [(vars(each)["event"], vars(each)["calls"]) for each in log.records] == [
        ("attention.left", 2)
    ]


async def test_a_callback_that_answers_after_the_app_has_closed_harms_nobody() -> None:
    answer, threads = threading.Event(), []

    def spawn(work: Callable[[], None], *, name: str) -> threading.Thread:
        threads.append(spawn_thread(work, name=name))
        return threads[-1]

    line = AttentionLine(lambda _: answer.wait(30), spawn)
    line.put(an_attention())
    await asyncio.sleep(0)
    await line.close(seconds=0)
    answer.set()
    threads[0].join()
    await asyncio.sleep(0)

    assert not threads[0].is_alive()


async def test_the_callback_runs_where_the_app_was_made_and_not_in_a_run() -> None:
    tenant: ContextVar[str] = ContextVar("tenant")
    tenant.set("acme")
    seen: list[tuple[str, object]] = []
    line = AttentionLine(lambda _: seen.append((tenant.get(), scope_now.get())), spawn_thread)

    tenant.set("other")
    scope_now.set(a_run())
    line.put(an_attention())
    await line.close()

    assert seen == [("acme", None)]
