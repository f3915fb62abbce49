"""A remote worker and a server that exchange large frames."""

from __future__ import annotations

import asyncio

import pytest

from onward.wire.messages import messages
from tests.unit.wire.test_remote_worker import joined

pytestmark = pytest.mark.usefixtures("onward_clock")


async def test_requests_may_wait_behind_a_large_response_that_takes_long() -> None:
    async with joined() as world:
        load = asyncio.ensure_future(world.worker.load(["r1"], {}))
        request = await world.stream.sent("load")
        other = asyncio.ensure_future(world.worker.owned())
        behind = await world.stream.sent("owned")
        for _ in range(6):
            await asyncio.sleep(10)
            part = messages.LoadReply(runs=[messages.LoadedRun(run="r1")])
            world.stream.put(messages.Response(id=request.id, more=True, load=part))
        world.stream.answer(request, load=messages.LoadReply())
        world.stream.answer(behind, owned=messages.OwnedReply())
        assert list(await load) == ["r1"]
        assert not await other
