"""Waiting for the ends of runs through one stream, which may break."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward.errors import NotFound, NotOpen, Unavailable, UserError
from onward.wire.messages import messages
from onward.wire.problems import to_problem
from onward.wire.watches import Watches
from tests.unit.wire.fake_network import FakeNetwork, FakeTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.usefixtures("onward_clock")


class World:
    """Callers that wait, and the network between them and the server."""

    def __init__(self) -> None:
        self.network = FakeNetwork(messages.WatchRequest)
        self.watches = Watches(self.network, "shop")

    def wait(self, uid: str, *, also_paused: bool = False) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.watches.end_of(uid, also_paused=also_paused))


@asynccontextmanager
async def waiting() -> AsyncIterator[World]:
    world = World()
    try:
        yield world
    finally:
        world.watches.close()
        await world.network.close()


async def opened(world: World) -> FakeTransport:
    stream = await world.network.opened()
    assert (await stream.sent()).namespace == "shop"
    return stream


async def watched(stream: FakeTransport) -> set[tuple[str, bool]]:
    return {(each.run, each.also_paused) for each in (await stream.sent()).watch}


def ended(uid: str, state: str = "succeeded") -> Any:
    return messages.WatchReply(ends=[messages.RunEnd(uid=uid, state=state)])


async def test_all_callers_share_one_stream() -> None:
    async with waiting() as world:
        first = world.wait("r1")
        stream = await opened(world)
        assert await watched(stream) == {("r1", False)}
        more = [world.wait("r2"), world.wait("r2"), world.wait("r3", also_paused=True)]
        assert await watched(stream) == {("r2", False), ("r3", True)}
        for uid in ("r3", "r2", "r1"):
            stream.put(ended(uid))
        assert {(await each).uid for each in (first, *more)} == {"r1", "r2", "r3"}
        assert world.network.tries == 1


async def test_a_pause_ends_only_the_waits_that_ask_for_it() -> None:
    async with waiting() as world:
        for_end, for_pause = world.wait("r1"), world.wait("r1", also_paused=True)
        stream = await opened(world)
        assert await watched(stream) == {("r1", False), ("r1", True)}
        stream.put(ended("r1", "paused"))
        assert (await for_pause).state == "paused"
        assert not for_end.done()
        stream.put(ended("r1", "failed"))
        assert (await for_end).state == "failed"


async def test_a_wait_goes_on_through_a_server_that_restarts() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        (await opened(world)).cut()
        world.network.refusing = Unavailable("fake", "is away")
        await asyncio.sleep(60)
        world.network.refusing = None
        stream = await opened(world)
        assert await watched(stream) == {("r1", False)}
        stream.put(ended("r1"))
        assert (await wait).uid == "r1"


async def test_a_wait_goes_on_after_a_stream_that_lasted_has_broken() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        stream = await opened(world)
        await asyncio.sleep(20)
        stream.cut()
        stream = await opened(world)
        assert await watched(stream) == {("r1", False)}
        stream.put(ended("r1"))
        assert (await wait).uid == "r1"


async def test_after_a_goodbye_another_stream_is_opened() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        stream = await opened(world)
        stream.put(messages.WatchReply(goodbye=True))
        stream = await opened(world)
        assert await watched(stream) == {("r1", False)}
        stream.put(ended("r1"))
        await wait


async def test_a_run_that_was_deleted_ends_its_wait_with_the_error() -> None:
    async with waiting() as world:
        wait, other = world.wait("r1"), world.wait("r2")
        stream = await opened(world)
        problem = to_problem(NotFound("run", "r1", "shop"))
        failure = messages.WatchFailure(run="r1", problem=problem)
        stream.put(messages.WatchReply(failures=[failure]))
        with pytest.raises(NotFound):
            await wait
        assert not other.done()


async def test_a_key_that_is_refused_ends_all_waits() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        (await opened(world)).cut(UserError("the key is revoked"))
        with pytest.raises(UserError, match="revoked"):
            await wait


async def test_what_nobody_waits_for_is_not_watched() -> None:
    async with waiting() as world:
        wait, other = world.wait("r1"), world.wait("r1", also_paused=True)
        stream = await opened(world)
        await watched(stream)
        wait.cancel()
        assert list((await stream.sent()).unwatch) == ["r1"]
        assert await watched(stream) == {("r1", True)}
        stream.put(ended("r1", "paused"))
        await other


async def test_callers_that_wait_when_it_is_closed_get_an_error() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        await opened(world)
        world.watches.close()
        with pytest.raises(NotOpen, match="was closed while this call was waiting"):
            await wait


async def test_a_frame_that_cannot_be_read_ends_the_stream_and_no_wait() -> None:
    async with waiting() as world:
        wait = world.wait("r1")
        stream = await opened(world)
        await watched(stream)
        stream.put_bytes(b"\xff")
        stream = await opened(world)
        assert await watched(stream) == {("r1", False)}
        stream.put(ended("r1"))
        assert (await wait).state == "succeeded"


async def test_a_caller_that_waits_again_as_soon_as_it_has_its_answer_gets_another() -> None:
    async def twice() -> list[str]:
        return [(await world.watches.end_of("r1")).state for _ in range(2)]

    async with waiting() as world:
        callers = [asyncio.ensure_future(twice()) for _ in range(3)]
        stream = await opened(world)
        for _ in range(2):
            assert await watched(stream) == {("r1", False)}
            stream.put(ended("r1"))
        assert await asyncio.gather(*callers) == [["succeeded"] * 2] * 3
