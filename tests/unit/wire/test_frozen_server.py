"""A server that stands still: its connections stay open, and nothing answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.engine.server_address import parse_server
from onward.errors import NotOpen, Unavailable
from onward.system.clock import SystemClock, SystemRandomness
from onward.wire import channels, connection, remote_client
from onward.wire.connection import Connection
from tests.kit.frozen import FreezingProxy
from tests.unit.wire.test_connection import call, connected, served

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find a server that stands still within half a second."""
    monkeypatch.setattr(channels, "KEEPALIVE_SECONDS", 0.2)
    monkeypatch.setattr(channels, "KEEPALIVE_REPLY_SECONDS", 0.2)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)


@pytest.mark.usefixtures("quick")
async def test_a_call_moves_on_to_the_next_server() -> None:
    async with served() as server, served() as other, FreezingProxy(server.port) as proxy:
        async with connected(f"onward://{proxy.address},localhost:{other.port}") as made:
            await call(made)
            proxy.freeze()
            async with asyncio.timeout(15):
                assert (await call(made, timeout=60, repeats=True)).result == b"1"
        assert (server.calls, other.calls) == (1, 1)


@pytest.mark.usefixtures("quick")
async def test_a_call_that_must_not_be_repeated_is_unavailable_soon() -> None:
    async with (
        served() as server,
        FreezingProxy(server.port) as proxy,
        connected(f"onward://{proxy.address}") as made,
    ):
        await call(made)
        proxy.freeze()
        async with asyncio.timeout(15):
            with pytest.raises(Unavailable):
                await call(made, timeout=60)


async def test_a_call_that_is_waiting_when_the_connection_is_closed_says_so() -> None:
    async with served() as server, FreezingProxy(server.port) as proxy:
        made = Connection(parse_server(f"onward://{proxy.address}"), None, "", SystemRandomness())
        await made.open()
        await call(made)
        proxy.freeze()
        waiting = asyncio.ensure_future(call(made, timeout=60))
        cancelled = asyncio.ensure_future(call(made, timeout=60))
        await asyncio.wait([waiting], timeout=0.1)
        cancelled.cancel()
        await made.close()
        with pytest.raises(NotOpen, match="was closed while this call was waiting"):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled


async def test_a_call_that_waits_for_a_connection_when_it_is_closed_says_so() -> None:
    async with served() as server, FreezingProxy(server.port) as proxy:
        async with connected(f"onward://localhost:{server.port}") as made:
            proxy.freeze()
            made._targets = [proxy.address]
            waiting = asyncio.ensure_future(call(made, timeout=60))
            await asyncio.wait([waiting], timeout=0.1)
        async with asyncio.timeout(10):
            with pytest.raises(NotOpen):
                await waiting


async def test_closing_an_engine_waits_a_little_for_its_signals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_client, "CLOSE_SECONDS", 0.1)
    async with served() as server, FreezingProxy(server.port) as proxy:
        engine: ClientEngine = remote_client.connect(
            f"onward://{proxy.address}", clock=SystemClock()
        )
        await engine.__aenter__()
        proxy.freeze()
        signals = [
            asyncio.ensure_future(engine.signal("r1", name, None))  # type: ignore[arg-type]
            for name in ("first", "second")
        ]
        await asyncio.wait(signals, timeout=0.1)
        async with asyncio.timeout(10):
            await engine.__aexit__(None, None, None)
            for each in signals:
                with pytest.raises(Unavailable, match="had not answered when the app was closed"):
                    await each
