"""A server that stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.server.hub import Hub
from tests.server.raw import RawClient

if TYPE_CHECKING:
    import pytest

    from tests.server.conftest import Worlds

NAMESPACES = ("a", "b", "c")


async def test_namespaces_that_wait_for_their_database_are_closed_at_the_same_time(
    sqlite: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closing = Hub.__aexit__, asyncio.Barrier(len(NAMESPACES))

    async def close_with_others(hub: Hub, *error: Any) -> None:
        async with asyncio.timeout(2), closing:
            await close(hub, *error)

    monkeypatch.setattr(Hub, "__aexit__", close_with_others)
    async with sqlite.serve() as world:
        for name in NAMESPACES:
            await RawClient(world.channel, name).start("r1")
        await world.server.stop()
    assert not closing.broken
    assert closing.n_waiting == 0
