"""The end of a worker's stream that is cut while it closes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.access import open_principal
from onward.core.instant import SECOND
from onward.server.limits import StreamLimits
from onward.server.stream import serve_worker
from onward.wire.messages import messages

if TYPE_CHECKING:
    import pytest

    from onward.model.claims import Wanted
    from tests.server.conftest import Worlds


class Pipe:
    """A connection; the test is the worker."""

    def __init__(self) -> None:
        self.arriving: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: asyncio.Queue[Any] = asyncio.Queue()

    async def read(self) -> bytes | None:
        return await self.arriving.get()

    async def write(self, frame: bytes) -> None:
        self.sent.put_nowait(messages.Response.FromString(frame))

    def send(self, **request: Any) -> None:
        self.arriving.put_nowait(messages.Request(**request).SerializeToString())


async def test_a_worker_whose_stream_was_cut_while_it_closed_can_join_again(
    sqlite: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sqlite.serve() as world:
        hub = await world.server.hub("default")
        looking, answered = asyncio.Event(), asyncio.Event()
        claim = hub.store.claim

        async def slow_claim(wanted: Wanted, *repeated: Any) -> Any:
            looking.set()
            await answered.wait()
            return await claim(wanted, *repeated)

        monkeypatch.setattr(hub.store, "claim", slow_claim)
        pipe, second = Pipe(), world.stream()
        hello = messages.Hello(protocol=1, registration=second.registration, lease=15 * SECOND)
        principal = open_principal("default")
        serving = asyncio.create_task(serve_worker(pipe, principal, hub, StreamLimits(), "s1"))
        pipe.send(id=1, hello=hello)
        assert (await pipe.sent.get()).HasField("hello")
        pipe.send(id=2, claim=messages.ClaimRequest(limit=1, wait=10 * SECOND))
        await looking.wait()
        serving.cancel()
        for _ in range(20):  # it waits for the claim that is looking
            await asyncio.sleep(0)
        assert not serving.done()
        serving.cancel()
        await asyncio.wait([serving])
        answered.set()
        async with second:
            assert (await second.join(is_reconnect=True)).HasField("hello")
        assert serving.cancelled()
