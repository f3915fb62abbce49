"""Code that blocks in a body or an async step is logged, with its line, while it still blocks."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from onward import App, step, workflow
from onward.errors import BadInput
from tests.kit.watching import working

noticed = threading.Event()
LONG = 60.0  # seconds: only a failing test blocks that long


SCRIPT = """
import asyncio, logging, time
from onward import App, workflow
logging.basicConfig(level=logging.WARNING)
@workflow
async def w() -> int:
    time.sleep(0.6)
    return 1
async def main():
    app = App(":memory:")
    async with app, app.worker():
        print(await app.run(w))
asyncio.run(main())
"""


@step
async def nothing() -> None:
    pass


def ask_the_bank() -> bool:
    return noticed.wait(LONG)  # this line


@workflow
async def block() -> bool:
    await nothing()
    return ask_the_bank()


@step
async def ask() -> bool:
    return ask_the_bank()


@workflow
async def block_in_step() -> bool:
    return await ask()


class Noticing(logging.Handler):
    """Keeps what is said of bodies that block, and ends the blocking."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") in ("run.blocking", "step.blocking"):
            self.records.append(record)
            noticed.set()


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Noticing:
    noticed.clear()
    handler = Noticing()
    monkeypatch.setattr(logging.getLogger("onward"), "handlers", [handler])
    return handler


def blocked_line() -> int:
    with open(__file__, encoding="utf-8") as source:
        return next(n for n, text in enumerate(source, 1) if text.endswith("# this line\n"))


async def test_a_body_that_blocks_is_logged_while_it_does(app: App, handler: Noticing) -> None:
    async with working(app, workflows=[block]):
        assert await app.run(block.options(id="b-1"))

    [record] = handler.records
    text = record.getMessage()
    assert text.startswith("run.blocking: run=b-1 workflow=block blocked_seconds=")
    assert f'test_blocking_code.py:{blocked_line()} in ask_the_bank"' in text
    assert text.endswith(' hint="move blocking code into a step"')


async def test_an_async_step_that_blocks_is_logged_while_it_does(
    app: App, handler: Noticing
) -> None:
    async with working(app, workflows=[block_in_step]):
        assert await app.run(block_in_step.options(id="b-1"))

    [record] = handler.records
    text = record.getMessage()
    assert text.startswith("step.blocking: run=b-1 kind=step step=ask attempt=1 blocked_seconds=")
    assert f'test_blocking_code.py:{blocked_line()} in ask_the_bank"' in text


def test_a_body_that_blocks_until_the_script_ends_is_logged() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )

    assert ended.stdout == "1\n"
    assert "run.blocking: " in ended.stderr


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ({"lease": "10ms"}, "lease='10ms' is less than 1s"),
        ({"stall": "0s"}, "stall='0s' is less than 1s"),
        ({"stall": "1h"}, "stall_limit='5m' is less than 1h"),
        ({"drain": "soon"}, "soon"),
    ],
)
async def test_times_of_a_worker_that_make_no_sense_are_refused(
    times: dict[str, str], text: str
) -> None:
    with pytest.raises(BadInput, match=text):
        async with App(":memory:").worker(**times):  # type: ignore[arg-type]  # that is the point
            pass
