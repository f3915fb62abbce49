"""The coroutines of calls: they continue at once, and end with their run."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from onward.errors import Unavailable
from onward.runtime.body.calls import CancelCall
from onward.runtime.execution.call_task import CallTasks, suspend


class Run:
    """A run that notes what is done with it."""

    is_gone = is_stopped = False
    leaving: Any = None

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tasks = CallTasks(self)

    def pump(self) -> None:
        self.notes.append("pump")

    def drop(self) -> None:
        self.notes.append("drop")
        self.is_gone = self.is_stopped = True
        self.tasks.close()

    def release(self) -> None:
        self.notes.append("release")

    def break_off(self, error: BaseException) -> None:
        self.notes.append(f"break off: {error}")


CALL = CancelCall("call")


async def wait_twice(run: Run) -> None:
    try:
        run.notes.append(str(await run.tasks.resumed()))
        run.notes.append(str(await run.tasks.resumed()))
    finally:
        run.notes.append("ended")


async def request(run: Run, future: asyncio.Future[str]) -> None:
    run.notes.append(await run.tasks.reply(future))


def test_a_task_begins_and_continues_at_once_and_then_the_body_runs() -> None:
    run = Run()
    run.tasks.start(CALL, wait_twice(run))
    run.tasks.resume(CALL, 1)
    run.tasks.resume(CALL, 2)

    assert run.notes == ["pump", "1", "pump", "2", "ended", "pump"]
    with pytest.raises(KeyError):
        run.tasks.resume(CALL)


def test_a_task_of_a_run_that_has_stopped_is_not_continued() -> None:
    run = Run()
    run.tasks.start(CALL, wait_twice(run))
    run.is_stopped = True
    run.tasks.resume(CALL, 1)

    assert run.notes == ["pump", "ended", "pump"]


def test_a_task_that_only_waits_is_dropped_with_its_call() -> None:
    run = Run()
    run.tasks.start(CALL, wait_twice(run))
    run.tasks.drop(CALL)

    assert run.notes == ["pump", "ended"]


async def test_a_task_with_a_request_is_not_dropped_before_the_reply() -> None:
    run = Run()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    run.tasks.start(CALL, request(run, future))
    run.tasks.drop(CALL)
    assert run.tasks.has_requests

    future.set_result("reply")
    await asyncio.sleep(0)
    assert run.notes == ["pump", "reply", "pump"]
    assert not run.tasks.has_requests


async def test_a_run_without_a_reply_leaves_and_its_tasks_are_closed() -> None:
    run = Run()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    run.tasks.start(CancelCall("other"), wait_twice(run))
    run.tasks.start(CALL, request(run, future))
    future.set_exception(Unavailable("the database", "is away"))
    await asyncio.sleep(0)

    assert run.notes == ["pump", "pump", "drop", "ended", "pump"]


async def test_a_request_that_outlives_its_run_changes_nothing() -> None:
    run = Run()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    run.tasks.start(CALL, request(run, future))
    run.drop()
    future.set_result("reply")
    await asyncio.sleep(0)

    assert run.notes == ["pump", "drop", "pump"]
    assert not run.tasks.has_requests


async def test_an_error_after_a_reply_ends_the_run() -> None:
    async def fail(run: Run, future: asyncio.Future[str]) -> None:
        reply = await run.tasks.reply(future)
        raise ValueError(reply)

    run = Run()
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    run.tasks.start(CALL, fail(run, future))
    future.set_result("a bug")
    await asyncio.sleep(0)

    assert run.notes == ["pump", "break off: a bug"]


def test_an_error_while_the_body_runs_is_raised_there() -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    run = Run()
    with pytest.raises(ValueError, match="a bug"):
        run.tasks.start(CALL, fail())
    assert run.notes == []


def test_a_task_that_was_closed_still_lets_the_body_run_after_its_commit() -> None:
    run, commits = Run(), []

    async def commit() -> None:
        await suspend(lambda task: commits.append(task.resume))
        run.notes.append("written")

    run.tasks.start(CALL, commit())
    run.tasks.close()
    commits.pop()()

    assert run.notes == ["pump", "pump"]


def test_what_a_closed_task_holds_is_freed_without_a_collector() -> None:
    class Held:
        pass

    async def hold(held: Held) -> None:
        await run.tasks.resumed()
        del held

    run = Run()
    gc.collect()
    gc.disable()
    try:
        held = Held()
        watched = weakref.ref(held)
        run.tasks.start(CALL, hold(held))
        del held
        assert watched() is not None
        run.tasks.close()
        assert watched() is None
    finally:
        gc.enable()
