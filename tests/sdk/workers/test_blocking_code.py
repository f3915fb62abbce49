"""Code that blocks in a body is logged, with its line, while it still blocks."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from onward import step, workflow
from tests.kit.watching import working

if TYPE_CHECKING:
    import pytest

    from onward import App

noticed = threading.Event()
LONG = 60.0  # seconds: only a failing test blocks that long


@step
async def nothing() -> None:
    pass


def ask_the_bank() -> bool:
    return noticed.wait(LONG)  # this line


@workflow
async def block() -> bool:
    await nothing()
    return ask_the_bank()


class Noticing(logging.Handler):
    """Keeps what is said of bodies that block, and ends the blocking."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "event", "") == "run.blocking":
            self.records.append(record)
            noticed.set()


async def test_a_body_that_blocks_is_logged_while_it_does(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed.clear()
    handler = Noticing()
    monkeypatch.setattr(logging.getLogger("onward"), "handlers", [handler])

    async with working(app, workflows=[block]):
        assert await app.run(block.options(id="b-1"))

    [record] = handler.records
    with open(__file__, encoding="utf-8") as source:  # noqa: ASYNC230 - no other task waits
        line = next(n for n, text in enumerate(source, 1) if text.endswith("# this line\n"))
    text = record.getMessage()
    assert text.startswith("run.blocking: run=b-1 workflow=block seconds=")
    assert f'test_blocking_code.py:{line} in ask_the_bank"' in text
    assert text.endswith(' hint="move blocking code into a step"')
