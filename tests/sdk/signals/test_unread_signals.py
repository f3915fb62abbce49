"""Signals that no wait takes, such as one with a misspelt name, are reported when the run ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onward
from onward import App, Signal, workflow

if TYPE_CHECKING:
    import pytest

approval = Signal("approval", bool)


@workflow
async def approve() -> bool:
    return await approval.wait()


@workflow
async def approve_twice(*, is_second: bool = False) -> bool:
    """Continue as a new run after the first approval."""
    found = await approval.wait()
    if not is_second:
        onward.continue_as_new(is_second=True)
    return found


def unread(log: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    records = [vars(record) for record in log.records]
    return [
        (record["levelname"], record["unread_count"], record["signals"])
        for record in records
        if record.get("event") == "run.unread_signals"
    ]


async def test_a_misspelt_signal_is_named_when_the_run_ends(
    memory: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory:
        run = await memory.start(approve)
        for name in ("aproval", "aproval", "approval"):
            await run.signal(name, True)
        async with memory.worker(workflows=[approve]):
            assert await run.result(timeout="60s")
    assert unread(caplog) == [("WARNING", 2, "aproval")]


async def test_signals_that_were_taken_are_not_reported(
    memory: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory, memory.worker(workflows=[approve]):
        run = await memory.start(approve)
        await run.signal(approval, True)
        assert await run.result(timeout="60s")
    assert unread(caplog) == []


async def test_a_signal_that_the_continuation_of_a_run_takes_is_not_reported(
    memory: App, caplog: pytest.LogCaptureFixture
) -> None:
    async with memory:
        run = await memory.start(approve_twice.options(id="a"))
        await run.signal(approval, True)
        await run.signal(approval, True)
        async with memory.worker(workflows=[approve_twice]):
            assert await run.result(timeout="60s")
    assert unread(caplog) == []
