"""With `App(debug=True)` a body that calls what a replay would not repeat fails at that line."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
import pathlib
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from datetime import datetime as aliased
from random import randint
from time import time as clock
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, step, workflow
from onward.errors import NotInBody, RunFailed
from tests.kit.watching import until_state

if TYPE_CHECKING:
    from collections.abc import Callable


FORBIDDEN: dict[str, tuple[Callable[[], Any], str]] = {
    "time.time": (lambda: clock(), "onward.now()"),
    "time.monotonic": (lambda: time.monotonic(), "onward.now()"),
    "time.sleep": (lambda: time.sleep(60), "onward.sleep"),
    "datetime.datetime.now": (lambda: aliased.now(datetime.UTC), "onward.now()"),
    "datetime.date.today": (lambda: datetime.date.today(), "onward.now()"),  # noqa: DTZ011
    "random.random": (lambda: random.random(), "onward.random()"),
    "random.randint": (lambda: randint(1, 6), "onward.random()"),
    "random.choice": (lambda: random.choice("ab"), "onward.random()"),
    "random.Random": (lambda: random.Random(), "onward.random()"),
    "uuid.uuid1": (lambda: uuid.uuid1(), "onward.uuid()"),
    "uuid.uuid4": (lambda: uuid.uuid4(), "onward.uuid()"),
    "os.urandom": (lambda: os.urandom(8), "step"),
    "secrets.token_hex": (lambda: secrets.token_hex(), "step"),
    "socket.create_connection": (lambda: socket.create_connection(("127.0.0.1", 9)), "step"),
    "urllib.request.urlopen": (lambda: urllib.request.urlopen("http://127.0.0.1:9/"), "step"),
    "threading.Thread.start": (lambda: threading.Thread(target=print).start(), "step"),
    "subprocess.Popen": (lambda: subprocess.Popen([sys.executable, "-V"]), "step"),
    "open": (lambda: open(__file__, encoding="utf-8"), "step"),  # noqa: SIM115
    "pathlib.Path.read_text": (lambda: pathlib.Path(__file__).read_text(), "step"),
}
ALLOWED: dict[str, Callable[[], Any]] = {
    "onward.now": onward.now,
    "onward.uuid": onward.uuid,
    "onward.random": lambda: onward.random().random(),
    "a seeded generator": lambda: random.Random(7).randint(1, 6),
    "a uuid by name": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "onward"),
    "a given time": lambda: aliased.fromtimestamp(0, datetime.UTC),
    "logging": lambda: logging.getLogger("shop").warning("the order is late"),
    "an import": lambda: __import__("this_module_is_not_there"),
}


@step
async def roll() -> float:
    return random.random() + time.time()


@step
async def stay() -> None:
    await asyncio.sleep(3600)


@workflow
async def call(name: str) -> None:
    FORBIDDEN[name][0]()


@workflow
async def call_allowed(name: str) -> float:
    with contextlib.suppress(ModuleNotFoundError):
        ALLOWED[name]()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(roll())
    await asyncio.wait_for(roll(), 60)
    await onward.sleep("1ms")
    return await roll()


@workflow
async def call_late() -> float:
    await roll()
    return await asyncio.wait_for(_late(), 60)


async def _late() -> float:
    await roll()
    return time.time()  # this line


@workflow
async def forget() -> str:
    roll()  # type: ignore[unused-coroutine]  # the first
    asyncio.create_task(stay())  # noqa: RUF006 - that is the point  # the second
    return "done"


@pytest.fixture
def debugging() -> App:
    return App(":memory:", debug=True)


def line_with(mark: str) -> int:
    lines = pathlib.Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def unawaited(log: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    records = [vars(record) for record in log.records]
    return [
        (record["calls"], record["where"])
        for record in records
        if record.get("event") == "run.unawaited"
    ]


@pytest.mark.parametrize("name", FORBIDDEN)
async def test_a_call_that_has_no_place_in_a_body_fails_the_run(name: str, debugging: App) -> None:
    async with debugging, debugging.worker(workflows=[call]):
        with pytest.raises(RunFailed) as failed:
            await debugging.run(call, name)

    error = failed.value.__cause__
    assert isinstance(error, NotInBody)
    assert str(error).startswith(f"{name}() at {__file__}:")
    assert FORBIDDEN[name][1] in str(error)


@pytest.mark.parametrize("name", ALLOWED)
async def test_a_body_may_do_what_a_replay_repeats(name: str, debugging: App) -> None:
    async with debugging, debugging.worker(workflows=[call_allowed]):
        assert await debugging.run(call_allowed, name) > 0


async def test_the_line_is_that_of_the_call_in_whatever_coroutine_it_is(debugging: App) -> None:
    async with debugging, debugging.worker(workflows=[call_late]):
        with pytest.raises(RunFailed, match=rf"test_debug.py:{line_with('this line')} in _late"):
            await debugging.run(call_late)


async def test_what_an_allowed_module_does_is_not_checked() -> None:
    app = App(":memory:", debug=True, debug_allow=[__name__])
    async with app, app.worker(workflows=[call]):
        await app.run(call, "random.random")


async def test_without_debug_nothing_is_checked(memory: App) -> None:
    async with memory, memory.worker(workflows=[call]):
        await memory.run(call, "random.random")


async def test_debug_can_be_set_before_a_worker_starts(memory: App) -> None:
    memory.debug = True
    async with memory, memory.worker(workflows=[call]):
        with pytest.raises(RunFailed, match=r"random\.random"):
            await memory.run(call, "random.random")


@pytest.mark.filterwarnings("ignore:coroutine 'roll' was never awaited")
async def test_calls_that_are_not_awaited_are_logged_with_their_lines(
    debugging: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with debugging, debugging.worker(workflows=[forget]):
        assert await debugging.run(forget) == "done"

    assert unawaited(caplog) == [
        ("roll", f"{__file__}:{line_with('the first')} in forget"),
        ("stay", f"{__file__}:{line_with('the second')} in forget"),
    ]


@pytest.mark.filterwarnings("ignore:coroutine 'roll' was never awaited")
async def test_calls_that_are_not_awaited_are_logged_without_debug_too(
    memory: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory, memory.worker(workflows=[forget]):
        assert await memory.run(forget) == "done"

    [step, task] = unawaited(caplog)
    assert step[0] == "roll"
    assert step[1].startswith(f"{__file__}, line {line_with('the first')}: roll()")
    assert (task[0], "test_debug.py" in task[1]) == ("stay", True)


@workflow
async def keep() -> str:
    kept = [roll()]
    await onward.sleep("1ms")
    return "done" * len(kept)


@pytest.mark.filterwarnings("ignore:coroutine 'roll' was never awaited")
async def test_a_call_in_a_variable_is_logged_when_the_body_ends(
    memory: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory, memory.worker(workflows=[keep]):
        assert await memory.run(keep) == "done"

    [(calls, where)] = unawaited(caplog)
    assert (calls, "test_debug.py" in where) == ("roll", True)


@workflow
async def forget_and_wait() -> str:
    roll()  # type: ignore[unused-coroutine]
    await onward.sleep("1ms")
    return str(await onward.wait_signal("go", str))


@pytest.mark.filterwarnings("ignore:coroutine 'roll' was never awaited")
async def test_a_replay_does_not_log_such_a_call_again(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(str(tmp_path / "a.db")) as app:
        async with app.worker(workflows=[forget_and_wait]):
            run = await app.start(forget_and_wait)
            await until_state(run, "waiting")
        async with app.worker(workflows=[forget_and_wait]):
            await run.signal("go", "went")
            assert await run.result(timeout="60s") == "went"

    assert [calls for calls, _ in unawaited(caplog)] == ["roll"]


async def test_the_warning_of_python_names_the_step_and_the_line(memory: App) -> None:
    async with memory, memory.worker(workflows=[forget]):
        with pytest.warns(RuntimeWarning, match="coroutine 'roll' was never awaited") as warned:
            await memory.run(forget)

    assert (warned[0].filename, warned[0].lineno) == (__file__, line_with("the first"))


async def test_the_warning_of_python_about_other_coroutines_is_as_before(memory: App) -> None:
    async def other() -> None: ...

    async with memory, memory.worker(workflows=[forget]):
        with pytest.warns(RuntimeWarning, match="other' was never awaited") as warned:
            other()  # type: ignore[unused-coroutine]  # another

    assert (warned[0].filename, warned[0].lineno) == (__file__, line_with("another"))
