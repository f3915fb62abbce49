"""A server on a loopback port, and connections to it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from onward.server.process import OnwardServer
from tests.server.raw import RawClient, RawStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


class World:
    """A server, and clients and workers that are connected to it."""

    def __init__(self, server: OnwardServer, channel: grpc.aio.Channel) -> None:
        self.server = server
        self.channel = channel
        self.client = RawClient(channel)

    def stream(self, worker: str = "w1", **registration: Any) -> RawStream:
        """Return a new stream of a worker, which has not joined yet."""
        return RawStream(self.channel, worker, **registration)

    @asynccontextmanager
    async def worker(self, worker: str = "w1", **registration: Any) -> AsyncIterator[RawStream]:
        """Enter with a worker that has joined."""
        async with self.stream(worker, **registration) as stream:
            assert (await stream.join()).WhichOneof("response") == "hello"
            yield stream


class Worlds:
    """Starts servers on one database."""

    def __init__(self, url: str) -> None:
        self.url = url

    @asynccontextmanager
    async def serve(self, address: str = "127.0.0.1:0", **options: Any) -> AsyncIterator[World]:
        """Enter with a server and a channel to it."""
        async with (
            OnwardServer(self.url, grpc=address, **options) as server,
            grpc.aio.insecure_channel(server.address) as channel,
        ):
            yield World(server, channel)


@pytest.fixture
def sqlite(tmp_path: Path) -> Worlds:
    """Servers on a SQLite file."""
    return Worlds(str(tmp_path / "onward.db"))


@pytest.fixture
def postgres(postgres_url: str) -> Worlds:
    """Servers on a Postgres database."""
    return Worlds(postgres_url)


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest) -> Worlds:
    """Servers on a database of each kind."""
    worlds: Worlds = request.getfixturevalue(request.param)
    return worlds
