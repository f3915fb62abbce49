"""The health service, which needs no key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from onward.server.health import (
    MAX_WATCHES,
    NOT_SERVING,
    SERVING,
    HealthCheckRequest,
    HealthCheckResponse,
)
from tests.kit.watching import until
from tests.server.raw import TIMEOUT

if TYPE_CHECKING:
    from tests.server.conftest import World, Worlds


def watch(world: World) -> Any:
    channel: Any = world.channel
    made = channel.unary_stream("/grpc.health.v1.Health/Watch")
    return made(HealthCheckRequest().SerializeToString())


async def status(stream: Any) -> int:
    async with asyncio.timeout(TIMEOUT):
        found: int = HealthCheckResponse.FromString(await stream.read()).status
        return found


async def test_streams_beyond_the_limit_are_refused(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        streams = [watch(world) for _ in range(MAX_WATCHES)]
        assert {await status(stream) for stream in streams} == {SERVING}
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await status(watch(world))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        streams.pop().cancel()

        async def is_admitted() -> bool:
            try:
                return await status(watch(world)) == SERVING
            except grpc.aio.AioRpcError:  # the cancel has not arrived yet
                return False

        await until(is_admitted)


async def test_all_streams_hear_that_the_server_stops(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        streams = [watch(world) for _ in range(3)]
        assert {await status(stream) for stream in streams} == {SERVING}
        stopping = asyncio.create_task(world.server.stop())
        assert {await status(stream) for stream in streams} == {NOT_SERVING}
        await stopping
