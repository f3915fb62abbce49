"""The stream of a worker, over any transport: hello, requests and responses, goodbye."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import check_id
from onward.core.lease import LEASE, MAX_REMOTE_LEASE
from onward.engine.frame_checks import (
    DEFAULT_LIMITS,
    check_arguments,
    children_among,
    held_runs,
    read_facts,
    worker_before,
)
from onward.errors import BadInput, LeaseLost, WriteRefused
from onward.server.faults import problem_of
from onward.server.hub import SessionHost
from onward.server.limits import SILENCE_SECONDS
from onward.server.news import NewsSender
from onward.server.outbox import Outbox
from onward.server.rights import WorkerRights
from onward.server.session import StreamSession, check_worker
from onward.store.hints import ANYTHING
from onward.telemetry.events import emit
from onward.wire.messages import messages
from onward.wire.work import LOST_WORKER, REGISTRATION

if TYPE_CHECKING:
    from onward.core.access import Principal
    from onward.core.instant import Duration, Instant
    from onward.model.workers import LostWorker, Registration
    from onward.server.hub import Hub
    from onward.server.limits import StreamLimits

PROTOCOL = 1

FLUSH_SECONDS = 2.0
"""How long the last answers of a stream, and then the last frames, may take."""


class FrameTransport(Protocol):
    """A connection that carries frames in both directions."""

    async def read(self) -> bytes | None:
        """Return the next frame; None: the other side sends no more. It raises if it breaks."""
        ...

    async def write(self, frame: bytes) -> None:
        """Send a frame."""
        ...


async def serve_worker(
    transport: FrameTransport, principal: Principal, hub: Hub, limits: StreamLimits, server: str
) -> None:
    """Serve a worker until it or the server ends the stream.

    Args:
        transport: The connection.
        principal: Who has opened it.
        hub: The namespace.
        limits: How much the worker may ask at a time.
        server: The name of this server.
    """
    async with asyncio.timeout(SILENCE_SECONDS):
        data = await transport.read()
    if data is None:
        return
    request = messages.Request.FromString(data)
    stream: WorkerStream | None = None
    try:
        hello, registration = _greeting(request, principal)
        stream = WorkerStream(hub, registration, principal, limits, server)
        welcome = await stream.join(hello)
    except BaseException as error:  # the worker gets it
        if stream is not None:
            await stream.close()
        if not isinstance(error, Exception):
            raise
        problem = problem_of(error, server, "hello")
        await transport.write(messages.Response(id=request.id, problem=problem).SerializeToString())
        return
    try:
        stream.report("worker.connected")
        stream.session.outbox.put(
            messages.Response(id=request.id, at=stream.joined_at, hello=welcome)
        )
        await stream.serve(transport)
    finally:
        try:
            await stream.close()
        finally:
            stream.report("worker.disconnected")


class WorkerStream:
    """The stream of one worker: its session, and the engine and news behind it."""

    def __init__(
        self,
        hub: Hub,
        registration: Registration,
        principal: Principal,
        limits: StreamLimits,
        server: str,
    ) -> None:
        self._hub = hub
        self._principal = principal
        self._limits = limits
        self._server = server
        outbox = Outbox(limits)
        self._host = SessionHost(hub, principal.key_id, lambda subject: self._news.hear(subject))
        self._news = NewsSender(outbox, self._host.news.has)
        self._engine = hub.worker(registration.worker, self._host, self._news.drain)
        self._rights = WorkerRights(
            registration,
            principal,
            partial(read_facts, hub.store),
            partial(children_among, hub.store),
        )
        self.session = StreamSession(
            self._engine,
            registration,
            principal,
            hub.claims,
            self._rights,
            outbox,
            limits,
            server,
        )
        self.session.drain = self._news.drain

    @property
    def joined_at(self) -> Instant:
        """The database's time, as the hello was answered."""
        return self._engine.joined_at

    def report(self, event: str) -> None:
        """Log something about the stream."""
        emit(
            event,
            worker=self.session.worker,
            server=self._server,
            namespace=self._hub.namespace,
            why=self.session.why_ended,
        )

    async def join(self, hello: Any) -> Any:
        """Take or find the lease of the worker, and return the welcome."""
        session = self.session
        await self._check_key(hello)
        while (before := self._hub.sessions.get(session.worker)) is not None:
            before.end("the worker opened another stream")
            await before.is_closed.wait()
        self._hub.sessions[session.worker] = session
        lost: list[str] = []
        lease = hello.lease or LEASE
        if hello.is_reconnect:
            held = dict(hello.held)
            lost = await self._engine.reconnect(session.registration, lease, held)
            self._rights.adopted(await held_runs(self._hub.store, session.worker, held), lost)
            self._news.hear(ANYTHING)
        else:
            queues = session.registration.queues
            lost_one = await worker_before(self._hub.store, before_in(hello), queues)
            await self._engine.join(session.registration, lease, lost_one)
        return messages.Welcome(
            server=self._server,
            protocol=PROTOCOL,
            namespace=self._hub.namespace,
            has_own_clock=self._engine.has_own_clock,
            is_draining=session.worker in self._hub.draining or self._news.is_drained,
            lost=lost,
            max_payload_bytes=self._limits.payload_bytes,
            max_frame_bytes=self._limits.frame_bytes,
            max_commits=self._limits.commits,
        )

    async def _check_key(self, hello: Any) -> None:
        """Refuse a worker, or one whose place it takes, that has joined with another key.

        Raises:
            LeaseLost: it reconnects; there is no worker of that id and this key.
            WriteRefused: another key has joined with the id.
        """
        known, key = self._hub.store.key_of_worker, self._principal.key_id
        joined_with = await known(self.session.worker)
        if hello.is_reconnect and joined_with != key:
            raise LeaseLost(self.session.worker, "the lease of worker")
        before = await known(hello.before.worker) if hello.HasField("before") else None
        if not {joined_with, before} <= {None, key}:
            raise WriteRefused(
                "worker", "a worker with another key has joined under this worker's id"
            )

    async def serve(self, transport: FrameTransport) -> None:
        """Answer requests until the worker or the server ends the stream."""
        session = self.session
        self._news.open()
        reader = asyncio.create_task(self._read(transport))
        writer = asyncio.create_task(session.outbox.send(transport.write))
        end = asyncio.create_task(session.ended())
        tasks = (reader, writer, end)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() or (reader.done() and reader.exception() is not None):
                session.end("the connection broke")
            elif session.outbox.is_stuck(asyncio.get_running_loop().time()):
                pass  # the client would not read the last frames either
            else:
                reader.cancel()
                await self._finish(writer)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _finish(self, writer: asyncio.Task[None]) -> None:
        session = self.session
        if session.why_ended:
            goodbye = messages.Goodbye(why=session.why_ended)
            session.outbox.put(messages.Response(goodbye=goodbye))
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await session.answered()
        session.end("the worker closed the stream")
        session.outbox.end()
        await asyncio.wait([writer], timeout=FLUSH_SECONDS)

    async def _read(self, transport: FrameTransport) -> None:
        session, loop = self.session, asyncio.get_running_loop()
        while (data := await transport.read()) is not None:
            begun = session.heard_at = loop.time()
            session.receive(data)
            refused, session.refusals = session.refusals, 0
            if refused:
                await asyncio.sleep(self._limits.refusal_delay(refused, loop.time() - begun))
            if session.is_full:
                await session.has_room()
            if session.outbox.is_full:
                await session.outbox.has_room(1)

    async def close(self) -> None:
        """Forget the worker; it keeps its lease and its runs.

        gRPC may cancel the caller meanwhile. Then the worker is forgotten all the same: its next
        stream waits for that.
        """
        await asyncio.shield(self._hub.spawn(self._close()))

    async def _close(self) -> None:
        try:
            await self.session.close()
        finally:
            self._engine.disconnect()
            if self._hub.sessions.get(self.session.worker) is self.session:
                del self._hub.sessions[self.session.worker]
            self.session.is_closed.set()


def _greeting(request: Any, principal: Principal) -> tuple[Any, Registration]:
    if request.WhichOneof("request") != "hello":
        raise BadInput(
            "the first request", "is not a hello", "Begin every stream with a hello request"
        )
    hello = request.hello
    if hello.protocol != PROTOCOL:
        advice = "Use compatible versions of client and server"
        raise BadInput(f"protocol {hello.protocol}", "is not supported by this server", advice)
    registration: Registration = REGISTRATION.to_row(hello.registration)
    check_id(registration.worker, "worker id")
    check_worker(registration, principal)
    check_lease(hello.lease)
    refusal = check_arguments(DEFAULT_LIMITS, {"held": hello.held, "before": before_in(hello)})
    if refusal is not None:
        raise WriteRefused(*refusal)
    return hello, registration


def before_in(hello: Any) -> LostWorker | None:
    """Return the worker whose place a worker takes."""
    return LOST_WORKER.to_row(hello.before) if hello.HasField("before") else None


def check_lease(length: Duration) -> None:
    """Refuse a lease that would outlive its worker by far.

    Raises:
        BadInput: it would.
    """
    if not 0 <= length <= MAX_REMOTE_LEASE:
        advice = "Pass a lease= between 0s and 1h"
        raise BadInput("the lease", "is longer than an hour, or negative", advice)
