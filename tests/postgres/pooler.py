"""A transaction pooler: each transaction of a client may run on another server connection.

It does on purpose what a real one does by chance: a client never gets the same server connection
twice in a row. Settings of a session, prepared statements and LISTEN get lost on the way.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

SSL_REQUEST = 80877103
TAKEN = {"user", "database", "client_encoding", "application_name", "DateStyle", "TimeZone"}

Server = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pooler:
    """Listens on a loopback port and shares server connections among all clients."""

    def __init__(self, url: str) -> None:
        self._upstream = urlsplit(url)
        self._idle: deque[Server] = deque()
        self._clients: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        self.handed_out = 0
        self._places: float = math.inf
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._listening is not None
        self._listening.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()

    @property
    def url(self) -> str:
        assert self._listening is not None
        port = self._listening.sockets[0].getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}{self._upstream.path}"

    def be_full(self, places: int = 0) -> None:
        """Hang up on all clients, and let in no more of them than so many."""
        self._places = places
        for writer in self._writers:
            writer.transport.abort()

    def have_room(self) -> None:
        self._places = math.inf

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        self._writers.add(writer)
        try:
            if await self._greet(reader, writer):
                await self._carry(reader, writer)
        except (ConnectionError, EOFError, asyncio.CancelledError):
            pass  # the client has left, or the pooler closes
        finally:
            self._clients.discard(task)
            self._writers.discard(writer)
            writer.close()
            while len(self._idle) > 2 * len(self._clients):  # or the server runs out of them
                self._idle.popleft()[1].close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        packet = await _startup(reader)
        while int.from_bytes(packet[4:8], "big") == SSL_REQUEST:
            writer.write(b"N")
            packet = await _startup(reader)
        names = packet[8:].split(b"\0")[0:-2:2]
        strange = [name.decode() for name in names if name.decode() not in TAKEN]
        refusal = f"unsupported startup parameter: {strange[0]}" if strange else ""
        if len(self._writers) > self._places:
            refusal = "no more connections allowed (max_client_conn)"
        if refusal:
            told = f"SFATAL\0C08P01\0M{refusal}\0\0".encode()
            writer.write(b"E" + (len(told) + 4).to_bytes(4, "big") + told)
            return False
        for _ in range(2):  # so that there is always another one to hand out
            server = await self._connect()
            server[1].write(packet)
            greeting = b""
            while not greeting.endswith(b"Z\0\0\0\x05I"):
                greeting += await _frame(server[0])
            self._idle.append(server)
        writer.write(greeting)
        return True

    async def _connect(self) -> Server:
        options = parse_qs(self._upstream.query)
        place = f"{options['host'][0]}/.s.PGSQL.{options['port'][0]}"
        return await asyncio.open_unix_connection(place)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers: asyncio.Task[None] | None = None
        try:
            while (frame := await _frame(reader))[:1] != b"X":
                if answers is None or answers.done():
                    server = self._idle.popleft()
                    self.handed_out += 1
                    answers = asyncio.create_task(self._answer(server, writer))
                server[1].write(frame)
        finally:
            if answers is not None and not answers.done():  # it left in the middle of something
                answers.cancel()
                await asyncio.wait([answers])
                server[1].close()

    async def _answer(self, server: Server, writer: asyncio.StreamWriter) -> None:
        """Carry answers until the server is in no transaction, then let others have it."""
        while True:
            frame = await _frame(server[0])
            is_free = frame == b"Z\0\0\0\x05I"
            if is_free:
                self._idle.append(server)
            writer.write(frame)
            if is_free:
                return


async def _startup(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(int.from_bytes(size, "big") - 4)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
