"""The wire between the servers of a simulated world and their workers and clients.

`RemoteWorker` and `RemoteClient` on this side and the services on the other are real. Only what
gRPC does is simulated. The frames of a stream take their time in both directions, and arrive in
order, as TCP promises. A stream may break at any frame: then this frame is lost, and those on their
way may be, in either direction. It may also stand still for longer than its ends have patience for.
Frames of a stream that was given up arrive all the same, after those of the next one. Calls may get
lost, or their replies; they may arrive twice, or long after their caller has given up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from grpc.aio import EOF  # type: ignore[attr-defined]  # its stubs do not know it

from onward.core.instant import SECOND
from onward.errors import Unavailable
from onward.wire.messages import messages
from tests.simulation.simulator.servers import WHERE, Context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from onward.core.ports import Randomness
    from onward.wire.rpc import Rpc
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.servers import Server, Servers

LATE_SECONDS = 20.0
"""How late a call may arrive whose caller has given up."""

STALL_SECONDS = 30.0
"""How long a stream may stand still: longer than its ends wait for a sign of life."""

NOTICE_SECONDS = 40.0
"""After how long both ends of a stream that stood still are connected again."""


class SimulatedNetwork:
    """The way of one process to the servers, as `onward.wire.network.Network` describes it."""

    where = WHERE

    def __init__(self, servers: Servers, process: Process, randomness: Randomness) -> None:
        self._servers = servers
        self._process = process
        self.randomness = randomness
        self._next = 0
        self._unanswered = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    async def open(self) -> None:
        """Do nothing: servers are looked for when they are needed."""

    async def close(self) -> None:
        """End what is under way."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task in the process."""
        task = self._servers.loop.task_of(self._process, work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def check_open(self) -> None:
        """Do nothing: it is open."""

    async def stream(self, path: str) -> SimulatedStream:
        """Open a stream to a server that is there."""
        return SimulatedStream(await self._server(), self._process, path)

    @asynccontextmanager
    async def renewals(self) -> AsyncIterator[Callable[[Rpc, Any, float], Awaitable[Any]]]:
        """Return how a lease is renewed."""
        yield self._renew

    async def _server(self) -> Server:
        await asyncio.sleep(self._servers.delay())
        running = [each for each in self._servers.running if each.is_open]
        if not running:
            await asyncio.sleep(0.5)
            raise Unavailable(self.where, "cannot be reached")
        self._next += 1
        return running[self._next % len(running)]

    async def call(self, rpc: Rpc, request: Any, *, timeout: float, repeats: bool = False) -> Any:
        """Make a call, once more if `repeats` says that it may be."""
        kind, data = request.operation, request.SerializeToString()
        try:
            reply = await self._call(kind, rpc, data, timeout, may_be_late=repeats)
        except Unavailable:
            if not repeats:
                raise
            reply = await self._call(kind, rpc, data, timeout, may_be_late=True)
        return rpc.reply.FromString(reply)

    async def _renew(self, rpc: Rpc, request: Any, timeout: float) -> Any:
        """Make a call for the lease of a worker."""
        kind, data = rpc.path.rpartition("/")[2], request.SerializeToString()
        try:
            reply = await self._call(kind, rpc, data, timeout, may_be_late=kind == "Renew")
        except Unavailable:
            self._unanswered += 1
            if self._unanswered > 2:  # others may hold it to be dead
                self._process.has_stood_still = True
            raise
        self._unanswered = 0
        return rpc.reply.FromString(reply)

    async def _call(
        self, kind: str, rpc: Rpc, data: bytes, timeout: float, *, may_be_late: bool
    ) -> bytes:
        """Send a call and wait for its reply; each of them may get lost, or come twice."""
        servers, often = self._servers, self._servers.wire.calls_lost
        server = await self._server()
        await asyncio.sleep(servers.delay())
        if servers.happens(often):
            servers.befell[kind, "lost"] += 1
            if may_be_late and servers.happens(0.5):
                self._arrive_later(kind, server, rpc.path, data)
            await asyncio.sleep(timeout if servers.happens(0.5) else servers.upto(1))
            raise Unavailable(self.where, "did not answer")
        if servers.happens(often):
            servers.befell[kind, "twice"] += 1
            server.call(rpc.path, data)
            await asyncio.sleep(servers.delay())
        done = server.call(rpc.path, data)
        ends: list[asyncio.Future[Any]] = [done, server.gone]
        await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not done.done() or servers.happens(often):
            servers.befell[kind, "reply lost"] += 1
            raise Unavailable(self.where, "did not answer")
        await asyncio.sleep(servers.delay())
        return done.result()

    def _arrive_later(self, kind: str, server: Server, path: str, data: bytes) -> None:
        def arrive() -> None:
            if server.is_open:
                self._servers.befell[kind, "late"] += 1
                server.call(path, data)

        late, context = self._servers.upto(LATE_SECONDS), server.process.context.copy()
        self._servers.loop.call_later(late, arrive, context=context)


class _Direction:
    """Frames on their way in one direction: in order, each after a while."""

    def __init__(
        self, servers: Servers, reader: Process, befalls: Callable[[bytes | None, str], None]
    ) -> None:
        self._servers = servers
        self._reader = reader
        self._befalls = befalls
        self._on_their_way: deque[tuple[asyncio.TimerHandle, bytes | None]] = deque()
        self._frames: deque[bytes | None] = deque()
        self._arrived = asyncio.Event()
        self._last = 0.0

    def put(self, frame: bytes | None) -> None:
        """Send a frame, or None: there are no more."""
        loop = self._servers.loop
        # Later than the one before: timers of one moment fire in any order.
        self._last = max(self._last + 1e-6, loop.time() + self._servers.delay())
        context = self._reader.context.copy()
        timer = loop.call_at(self._last, self._arrive, context=context)
        self._on_their_way.append((timer, frame))

    def stall(self, seconds: float) -> None:
        """Let frames that are sent from now on arrive after so many seconds at the earliest."""
        self._last = max(self._last, self._servers.loop.time() + seconds)

    def lose(self) -> None:
        """Lose what is on its way."""
        for timer, frame in self._on_their_way:
            timer.cancel()
            self._befalls(frame, "lost")
        self._on_their_way.clear()

    def _arrive(self) -> None:
        _, frame = self._on_their_way.popleft()
        self._befalls(frame, "arrived")
        self._frames.append(frame)
        self._arrived.set()

    async def get(self) -> bytes | None:
        """Wait for the next frame."""
        while not self._frames:
            self._arrived.clear()
            await self._arrived.wait()
        return self._frames.popleft()


class SimulatedStream:
    """A stream: a transport at the end of its worker or client, and another at its server."""

    def __init__(self, server: Server, process: Process, path: str) -> None:
        self._server = server
        self._servers = servers = server.servers
        self._process = process
        self._path = path
        self._to_server = _Direction(servers, server.process, partial(self._befalls, "request"))
        self._to_client = _Direction(servers, process, partial(self._befalls, "response"))
        self._is_cut = False
        self._is_given_up = False
        server.streams[self] = None
        server.tasks.append(servers.loop.task_of(server.process, self._serve(), name="stream"))

    async def _serve(self) -> None:
        server = self._server
        is_work = self._path.endswith("/Work")
        serve: Any = server.workers._work if is_work else server.clients._watch
        try:
            await serve(None, _ServerEnd(self))
        except grpc.aio.AbortError:
            pass
        finally:
            self._to_client.put(None)
            del server.streams[self]

    async def write(self, frame: bytes) -> None:
        """Send a request."""
        self._send(self._to_server, "request", frame)
        self._process.at_send()

    async def end(self) -> None:
        """Send no more requests."""
        self._to_server.put(None)

    async def read(self) -> bytes | None:
        """Wait for the next response."""
        return await self._to_client.get()

    def cancel(self) -> None:
        """Give up the stream: what was sent may still arrive."""
        self._is_given_up = True
        self._to_server.put(None)

    def send_response(self, frame: bytes) -> None:
        """Send a response."""
        self._send(self._to_client, "response", frame)

    async def next_request(self) -> bytes | None:
        """Wait for the next request."""
        return await self._to_server.get()

    def cut(self) -> None:
        """Break: what is sent from now on does not arrive, and both ends learn of it."""
        if not self._is_cut:
            self._is_cut = True
            for direction in (self._to_server, self._to_client):
                if self._servers.happens(0.5):
                    direction.lose()
                direction.put(None)

    def _send(self, direction: _Direction, side: str, frame: bytes) -> None:
        servers = self._servers
        if self._is_cut:
            return
        if servers.happens(servers.wire.cuts):
            self._befalls(side, frame, "lost")
            self.cut()
            return
        if servers.happens(servers.wire.stalls):
            self._befalls(side, frame, "stalled")
            direction.stall(servers.upto(STALL_SECONDS))
            # Workers of a world have no thread that renews leases while they wait for an answer.
            self._process.has_stood_still = True
            noticed = servers.clock.monotonic() + round(NOTICE_SECONDS * SECOND)
            servers.witness.control.disturbed(noticed)
        direction.put(frame)

    def _befalls(self, side: str, frame: bytes | None, what: str) -> None:
        if what == "arrived":
            if side == "response" or not self._is_given_up:
                return
            what = "late"
        if frame is not None:
            self._servers.befell[_kind(self._path, side, frame), what] += 1


def _kind(path: str, side: str, frame: bytes) -> str:
    """Return what a frame of a stream is about."""
    if path.endswith("/Watch"):
        return f"watch {side}"
    message = messages.Request if side == "request" else messages.Response
    return f"{message.FromString(frame).WhichOneof(side)} {side}"


class _ServerEnd(Context):
    """A stream as its server sees it."""

    def __init__(self, stream: SimulatedStream) -> None:
        self._stream = stream

    async def read(self) -> Any:
        """Wait for the next request."""
        frame = await self._stream.next_request()
        return EOF if frame is None else frame

    async def write(self, frame: bytes) -> None:
        """Send a response."""
        self._stream.send_response(frame)
