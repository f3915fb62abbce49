"""An event loop in the background: calls into it, and what it keeps entered for a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import pytest

from onward.sdk.background import Background

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class Trouble(Exception):
    """What goes wrong here."""


@pytest.fixture
def background() -> Iterator[Background]:
    loop = Background("this test")
    loop.start()
    yield loop
    loop.stop()


class Device:
    """Something that is entered and left in one task, and may fail by itself."""

    def __init__(self) -> None:
        self.broken = asyncio.Event()
        self.tasks: list[object] = []

    @asynccontextmanager
    async def used(self) -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            self.tasks.append(asyncio.current_task())
            watching = group.create_task(self._break())
            try:
                yield "device"
            finally:
                self.tasks.append(asyncio.current_task())
                watching.cancel()

    async def _break(self) -> None:
        await self.broken.wait()
        raise Trouble

    async def breaks(self) -> None:
        self.broken.set()


@contextmanager
def broken(background: Background) -> Iterator[None]:
    """Hold a device that has broken, without an error so far."""
    device = Device()
    with background.hold(device.used()):
        background.call(device.breaks())
        while not background._failures:
            pass
        yield


def test_what_is_held_is_entered_and_left_in_one_task(background: Background) -> None:
    device = Device()
    with background.hold(device.used()) as value:
        assert value == "device"
        assert len(device.tasks) == 1
    assert device.tasks[0] is device.tasks[1]


def test_a_call_that_waits_is_ended_by_what_failed(background: Background) -> None:
    device = Device()

    async def wait_for_ever() -> None:
        device.broken.set()
        await asyncio.Event().wait()

    heard: list[BaseException] = []

    def body() -> None:
        with background.hold(device.used()):
            try:
                background.call(wait_for_ever())
            except ExceptionGroup as group:
                heard.extend(group.exceptions)

    with pytest.raises(ExceptionGroup):
        body()
    assert [type(error) for error in heard] == [Trouble]
    assert background.call(asyncio.sleep(0, "fine")) == "fine"


def test_a_call_that_has_just_begun_is_ended_by_what_failed(background: Background) -> None:
    """The loop may be faster than the thread that begins the call."""
    for _ in range(300):
        device = Device()

        async def wait_for_ever(broken: asyncio.Event = device.broken) -> None:
            broken.set()
            await asyncio.Event().wait()

        with pytest.raises(ExceptionGroup), background.hold(device.used()):
            background.call(wait_for_ever())


def test_the_next_call_tells_what_failed_while_the_thread_was_busy(
    background: Background,
) -> None:
    with pytest.raises(ExceptionGroup), broken(background):
        pytest.fail(f"the call went through: {background.call(asyncio.sleep(0))}")
    assert background.call(asyncio.sleep(0, "fine")) == "fine"


def test_leaving_raises_what_failed_between_calls(background: Background) -> None:
    device = Device()
    with pytest.raises(ExceptionGroup), background.hold(device.used()):
        background.call(device.breaks())
    assert background.call(asyncio.sleep(0, "fine")) == "fine"


def test_what_failed_for_one_thread_is_nothing_to_another(background: Background) -> None:
    with (
        pytest.raises(ExceptionGroup),
        broken(background),
        ThreadPoolExecutor(1) as other,
    ):
        assert other.submit(lambda: background.call(asyncio.sleep(0, "fine"))).result() == "fine"


def test_what_cannot_be_entered_raises_why(background: Background) -> None:
    @asynccontextmanager
    async def closed(why: Exception | None) -> AsyncIterator[None]:
        if why is not None:
            raise why
        yield

    with pytest.raises(Trouble), background.hold(closed(Trouble())):
        pytest.fail("it was entered")
    assert background.call(asyncio.sleep(0, "fine")) == "fine"


def test_a_call_sees_the_context_of_its_thread(background: Background) -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("Ada")

    async def look() -> str:
        return name.get()

    assert background.call(look()) == "Ada"
