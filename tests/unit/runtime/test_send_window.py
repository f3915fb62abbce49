"""A handler that continues after its window has closed is told so before it can send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward.errors import TooLate
from onward.runtime.attempts.send_window import InTime
from onward.runtime.body.effects import Sending


class Clock:
    """A clock that the handler itself puts forward, as if the process had been stopped."""

    now = 0

    def monotonic(self) -> int:
        return self.now

    def wall(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def in_time(handler: Any, clock: Clock) -> Any:
    return await InTime(handler, Sending("charge", "key", 10, clock))


async def test_a_handler_in_time_returns_its_result(clock: Clock) -> None:
    async def handler() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
            clock.now += 3
        return await asyncio.wait_for(asyncio.sleep(0, "sent"), 1)

    assert await in_time(handler(), clock) == "sent"


async def test_an_error_of_a_handler_is_raised(clock: Clock) -> None:
    async def handler() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_time(handler(), clock)


async def test_a_handler_does_not_begin_too_late(clock: Clock) -> None:
    begun = []

    async def handler() -> None:
        begun.append("begun")

    clock.now = 11
    with pytest.raises(TooLate):
        await in_time(handler(), clock)
    assert begun == []


async def test_a_handler_does_not_continue_too_late(clock: Clock) -> None:
    sent = []

    async def connect() -> None:
        clock.now = 11
        await asyncio.sleep(0)

    async def handler() -> None:
        await connect()
        sent.append("sent")

    with pytest.raises(TooLate):
        await in_time(handler(), clock)
    assert sent == []


async def test_a_handler_may_clean_up_after_it_is_too_late(clock: Clock) -> None:
    closed = []

    async def handler() -> None:
        clock.now = 11
        try:
            await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    with pytest.raises(TooLate):
        await in_time(handler(), clock)
    assert closed == ["closed"]


async def test_a_handler_that_is_stopped_may_clean_up(clock: Clock) -> None:
    closed = []

    async def handler() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            clock.now = 11
            await asyncio.sleep(0)
            closed.append("closed")

    task = asyncio.ensure_future(in_time(handler(), clock))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["closed"]
