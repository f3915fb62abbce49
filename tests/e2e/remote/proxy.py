"""A network between clients and a server: it cuts connections, delays bytes and loses answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import random
    from types import TracebackType

CHUNK_BYTES = 65_536
WAIT_SECONDS = 2.0
"""How long a fault waits for bytes that it can hit."""


class Proxy:
    """Forwards connections on a loopback port to a server on another one.

    A fault hits some of the open connections. Each returns whether it hit any bytes or connections.
    """

    def __init__(self, server_port: int, rng: random.Random) -> None:
        self._server_port = server_port
        self._rng = rng
        self._links: list[_Link] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listener is not None
        self._listener.close()
        for link in self._links:
            link.abort()
        await asyncio.gather(*self._tasks)

    @property
    def address(self) -> str:
        assert self._listener is not None
        return f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    @property
    def is_used(self) -> bool:
        """Whether it has open connections."""
        return bool(self._links)

    # --- faults -----------------------------------------------------------------------------------

    async def cut(self) -> bool:
        """Close connections at once, in both directions."""
        links = self._some()
        for link in links:
            link.abort()
        return bool(links)

    async def delay(self) -> bool:
        """Let everything on some connections take longer for a while."""
        links = self._some()
        for link in links:
            link.latency = self._rng.uniform(0.05, 0.5)
        is_hit = await _wait_for_hit(links)
        await asyncio.sleep(self._rng.uniform(0.1, 1.0))
        for link in links:
            link.latency = 0.0
        return is_hit

    async def lose_answers(self) -> bool:
        """Pass on what clients send, lose what the server answers, and cut the connections."""
        links = self._some()
        for link in links:
            link.loses_answers = True
        is_hit = await _wait_for_hit(links)
        await asyncio.sleep(self._rng.uniform(0.0, 0.3))
        for link in links:
            link.abort()
        return is_hit

    def _some(self) -> list[_Link]:
        if not self._links:
            return []
        links = self._rng.sample(self._links, self._rng.randint(1, len(self._links)))
        for link in links:
            link.is_hit.clear()
        return links

    # --- connections ------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()  # the server is down
            return
        link = _Link((reader, writer), server)
        self._links.append(link)
        await link.carry()
        self._links.remove(link)


_Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: _Side, server: _Side) -> None:
        self._client, self._server = client, server
        self.latency = 0.0
        self.loses_answers = False
        self.is_hit = asyncio.Event()
        """Whether bytes were delayed or lost."""

    async def carry(self) -> None:
        """Forward bytes until either side closes the connection."""
        requests = self._forward(self._client[0], self._server[1], are_answers=False)
        answers = self._forward(self._server[0], self._client[1], are_answers=True)
        tasks = [asyncio.ensure_future(requests), asyncio.ensure_future(answers)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.abort()
        await asyncio.wait(tasks)

    def abort(self) -> None:
        for _, writer in (self._client, self._server):
            writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_answers: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                if are_answers and self.loses_answers:
                    self.is_hit.set()
                    continue
                if self.latency:
                    self.is_hit.set()
                    await asyncio.sleep(self.latency)
                writer.write(data)
                await writer.drain()


async def _wait_for_hit(links: list[_Link]) -> bool:
    """Wait until bytes of any of these connections were hit; return whether they were."""
    waits = [asyncio.ensure_future(link.is_hit.wait()) for link in links]
    if not waits:
        return False
    done, pending = await asyncio.wait(
        waits, timeout=WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    for wait in pending:
        wait.cancel()
    return bool(done)
