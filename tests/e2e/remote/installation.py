"""Servers on one database, proxies in front of them, and remote workers, each a process to kill."""

from __future__ import annotations

import random
import socket
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Self

from tests.e2e.remote.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from tests.e2e.engine.supervisor import Crew, Process

PORTS = range(20_000, 30_000)
"""Ports that no outgoing connection takes while a server is down."""


class Servers:
    """Servers on the database of a crew; one that was killed starts again on its port."""

    def __init__(self, crew: Crew, count: int) -> None:
        self._crew = crew
        self.ports = free_ports(count)
        self.processes = [crew.server(port) for port in self.ports]

    async def up(self) -> None:
        """Wait until all of them accept connections."""
        for process in self.processes:
            await process.up()

    async def kill(self, place: int) -> None:
        """Kill a server, and leave it dead."""
        await self.processes[place].kill()

    def launch(self, place: int) -> None:
        """Start a server again, and do not wait for it."""
        self.processes[place] = self._crew.server(self.ports[place])


class Installation:
    """Servers behind proxies, and workers that reach them; use it with `async with`.

    Args:
        crew: Starts the processes.
        rng: Decides what the proxies hit.
        servers: How many servers there are.
        workers: How many workers there are.
        options: The options of a worker.
    """

    def __init__(
        self, crew: Crew, rng: random.Random, servers: int, workers: int, options: Sequence[str]
    ) -> None:
        self._crew = crew
        self._options = options
        self._worker_count = workers
        self.servers = Servers(crew, servers)
        self.proxies = [Proxy(port, rng) for port in self.servers.ports]
        self.workers: list[Process] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for proxy in self.proxies:
                await stack.enter_async_context(proxy)
            await self.servers.up()
            self.workers = [self._launched(place) for place in range(self._worker_count)]
            for worker in self.workers:
                await worker.up()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def url(self, place: int = 0) -> str:
        """Return the address of the servers; which of them is first differs from place to place."""
        addresses = [proxy.address for proxy in self.proxies]
        first = place % len(addresses)
        return f"onward://{','.join(addresses[first:] + addresses[:first])}"

    async def kill_worker(self, place: int) -> None:
        """Kill a worker, and start another one in its place."""
        await self.workers[place].kill()
        self.workers[place] = self._launched(place)

    async def kill_server(self, place: int) -> None:
        """Kill a server, and start it again on the same port."""
        await self.servers.kill(place)
        self.servers.launch(place)

    def check_alive(self) -> None:
        """Check that no process ended by itself."""
        assert not any(each.is_over for each in self.workers), "a worker ended"
        assert not any(each.is_over for each in self.servers.processes), "a server ended"

    def _launched(self, place: int) -> Process:
        return self._crew.launch(*self._options, url=self.url(place))


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(PORTS)  # other tests look for ports at the same time
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
