"""A network between a client and a real Postgres that loses replies and connections on demand.

    async with LossyProxy(postgres_url) as proxy:
        connection = await asyncpg.connect(proxy.url)
        proxy.drop_reply_after_commit(b"INSERT INTO run")
        ...  # the insert is committed, and its caller sees a broken connection

A *request* is what a client sends between two moments at which it waits for the server: a simple
query, or everything up to a Sync. Faults hit requests that execute something. They are aimed by
the text of the SQL, also when the statement was prepared long before, and by how many to let pass.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_PROTOCOL_MAJOR = 3


@dataclass(eq=False)
class Fault:
    """One loss to come. `happened` is set when it has been done."""

    kind: Literal["request", "reply"]
    match: bytes | None
    skip: int
    happened: asyncio.Event = field(default_factory=asyncio.Event)


class LossyProxy:
    """A TCP proxy in front of Postgres that loses requests or replies on command.

    Attributes:
        round_trips: How often clients have waited for the server.
        queries: How many statements they have executed.
    """

    def __init__(self, url: str) -> None:
        self.round_trips = 0
        self.queries = 0
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._upstream = urlsplit(url)
        self._faults: list[Fault] = []
        self._links: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address for clients: the same database and user, behind the proxy."""
        assert self._server is not None, "the proxy is not running"
        port = self._server.sockets[0].getsockname()[1]
        user = self._upstream.netloc.rpartition("@")[0]
        return self._upstream._replace(netloc=f"{user}@127.0.0.1:{port}", query="").geturl()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None, "the proxy is not running"
        self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)
        await self._server.wait_closed()
        if error is None and self._faults:
            raise AssertionError(f"armed but never triggered: {self._faults}")

    # --- commands ---------------------------------------------------------------------------------

    def drop_reply_after_commit(self, match: bytes | None = None, *, skip: int = 0) -> Fault:
        """Lose the whole answer to a request that the server has carried out, and cut the line.

        Args:
            match: Bytes that the request's SQL contains; any request will do without it.
            skip: How many requests that match to let pass first.
        """
        return self._arm(Fault("reply", match, skip))

    def drop_request(self, match: bytes | None = None, *, skip: int = 0) -> Fault:
        """Lose a request before it reaches the server, and cut the line.

        Args:
            match: Bytes that the request's SQL contains; any request will do without it.
            skip: How many requests that match to let pass first.
        """
        return self._arm(Fault("request", match, skip))

    def disarm(self) -> None:
        """Forget the losses that have not happened yet."""
        self._faults.clear()

    def freeze(self) -> None:
        """Hold every byte in both directions, on old connections and new ones."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Let the held bytes go on, in order."""
        self._thawed.set()

    def _arm(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def _aimed_at(self, sql: bytes) -> Fault | None:
        """Take the fault that is meant for a request with this SQL, if there is one."""
        for fault in self._faults:
            if fault.match is None or fault.match in sql:
                if fault.skip == 0:
                    self._faults.remove(fault)
                    return fault
                fault.skip -= 1
        return None

    # --- connections ------------------------------------------------------------------------------

    async def _serve(
        self, client_reader: asyncio.StreamReader, client: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        writers = [client]
        try:
            server_reader, server = await self._connect()
            writers.append(server)
            link = _Link(self, client_reader, client, server_reader, server)
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(link.carry_requests())
                pumps.create_task(link.carry_replies())
        except* (ConnectionError, EOFError):
            pass  # the end of one side is the end of both
        finally:
            self._links.discard(task)
            for writer in writers:
                writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        options = parse_qs(self._upstream.query)
        host = self._upstream.hostname or options.get("host", ["127.0.0.1"])[0]
        port = self._upstream.port or int(options.get("port", ["5432"])[0])
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


@dataclass
class _Link:
    """One client's connection through the proxy."""

    proxy: LossyProxy
    client_reader: asyncio.StreamReader
    client: asyncio.StreamWriter
    server_reader: asyncio.StreamReader
    server: asyncio.StreamWriter
    prepared: dict[bytes, bytes] = field(default_factory=dict)
    # The server ends its answer to each request with one ReadyForQuery, in order.
    unanswered: deque[Fault | None] = field(default_factory=deque)

    async def carry_requests(self) -> None:
        await self._greet()
        request = _Request(self.prepared)
        held = b""
        while True:
            frame = await _read_frame(self.client_reader)
            request.add(frame)
            held += frame
            kind = frame[:1]
            if kind in b"PBDEC":
                continue  # the rest of the request follows
            self.proxy.round_trips += kind in b"QSFH"
            if kind in b"QSF":  # not H: a Flush asks for answers, but does not end the request
                fault = self._judge(request)
                request = _Request(self.prepared)
                self.unanswered.append(fault)
            await self._send(self.server, held)
            held = b""

    async def carry_replies(self) -> None:
        while True:
            frame = await _read_frame(self.server_reader)
            fault = self.unanswered[0] if self.unanswered else None
            if fault is None:
                await self._send(self.client, frame)
            if frame[:1] == b"Z":
                self.unanswered.popleft()
                if fault is not None:
                    self._cut(fault)

    async def _greet(self) -> None:
        """Carry what comes before the first typed frame; refuse encryption."""
        while True:
            size = await self.client_reader.readexactly(4)
            packet = size + await self.client_reader.readexactly(_number(size) - 4)
            code = _number(packet[4:8])
            if code in {_SSL_REQUEST, _GSS_REQUEST}:
                await self._send(self.client, b"N")
                continue
            if code >> 16 == _PROTOCOL_MAJOR:  # else it asks to cancel, and nothing is answered
                self.unanswered.append(None)
            await self._send(self.server, packet)
            return

    def _judge(self, request: _Request) -> Fault | None:
        self.proxy.queries += request.executions
        fault = self.proxy._aimed_at(request.sql) if request.executions else None
        if fault is not None and fault.kind == "request":
            self._cut(fault)
        return fault

    def _cut(self, fault: Fault) -> None:
        fault.happened.set()
        for writer in (self.client, self.server):
            writer.transport.abort()
        raise ConnectionAbortedError(f"the proxy lost a {fault.kind}")

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self.proxy._thawed.wait()
        writer.write(data)
        await writer.drain()


@dataclass
class _Request:
    """What one request executes, and the text of it."""

    prepared: dict[bytes, bytes]
    executions: int = 0
    sql: bytes = b""

    def add(self, frame: bytes) -> None:
        kind, body = frame[:1], frame[5:]
        match kind:
            case b"Q":
                self.executions += 1
                self.sql += body
            case b"P":  # Parse: the name of the statement, then its text
                name, text, *_ = body.split(b"\0", 2)
                self.prepared[name] = text
            case b"B":  # Bind: the portal, then the name of the statement
                _, name, *_ = body.split(b"\0", 2)
                self.sql += self.prepared.get(name, b"") + b"\n"
            case b"E":
                self.executions += 1


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """Read one typed message: a type byte, a length that counts itself, a body."""
    head = await reader.readexactly(5)
    return head + await reader.readexactly(_number(head[1:]) - 4)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")
