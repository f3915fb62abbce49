"""The connection of one engine to its servers: one channel at a time, the next address if it fails.

`grpc.aio` belongs to one event loop: everything here runs on the loop of the App. Threads use
`BlockingConnection`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import grpc
import grpc.aio

from onward.core.retry import Retry
from onward.errors import NotOpen, PayloadTooLarge, Unavailable
from onward.errors.stores import CLOSED_MEANWHILE
from onward.system.process import check_process, forked
from onward.wire.channels import (
    channel_options,
    credentials_of,
    failure_of,
    metadata_of,
    unreached,
)
from onward.wire.network import PATIENCE_SECONDS
from onward.wire.rpc import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from onward.core.ports import Randomness
    from onward.engine.server_address import ServerAddress
    from onward.wire.rpc import Rpc

CALL_SECONDS = 10.0
CONNECT_SECONDS = 3.0
"""How long a server may take to accept a connection before the next address is tried."""

PROBE_SECONDS = 1.0
"""How long a call may take whose error says why a server cannot be reached."""

_PROBE = "/grpc.health.v1.Health/Check"
_LOOKING = Retry(attempts=None, delay="50ms", factor=2, max_delay="500ms", jitter=0.5)

_EOF: Any = getattr(grpc.aio, "EOF")  # noqa: B009 - the stubs do not know it
_READY = grpc.ChannelConnectivity.READY
_DOWN = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)

_open: WeakSet[Connection] = WeakSet()
"""The connections that are open."""

_inherited: list[Connection] = []
"""Connections that were open when this process was forked."""


def _inherit() -> None:
    _inherited.extend(_open)


os.register_at_fork(after_in_child=_inherit)


class Connection:
    """Channels to the servers at an address, on one event loop; open it with `async with`.

    Args:
        address: Where they are.
        key: The API key, if they want one.
        namespace: The namespace to compare with that of the key; empty: whatever the key says.
        randomness: Spreads the tries of many clients.
    """

    def __init__(
        self, address: ServerAddress, key: str | None, namespace: str, randomness: Randomness
    ) -> None:
        self.where = str(address)
        self.address = address
        self.metadata = metadata_of(key, namespace)
        self.randomness = randomness
        self.max_bytes = MAX_MESSAGE_BYTES
        """The size of a message that all servers take, as far as is known."""
        self._targets = address.targets
        self._current = 0
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._credentials: grpc.ChannelCredentials | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()  # not that of a run or of the first caller
        self._is_open = False
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Connect.

        Raises:
            Unavailable: none of the servers can be reached.
            StoreUnusable: the file of the certificate authority cannot be read, or this process was
                forked while a connection was open: gRPC does not survive that.
        """
        for other in _inherited:
            raise forked(other._pid, other.where)
        self._credentials = credentials_of(self.address)
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        _open.add(self)
        try:
            await self.ready()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End calls in progress, and disconnect."""
        self._is_open = False
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close(None)
        _open.discard(self)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that ends no later than this connection."""
        # Not by the loop: a worker sets a task factory, which is for tasks of user code.
        loop = asyncio.get_running_loop()
        task = asyncio.Task(work, loop=loop, name=name, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def check_open(self) -> None:
        """Refuse a call while this is not open here.

        Raises:
            NotOpen: it is not open.
            StoreUnusable: this process was forked while it was open.
        """
        if not self._is_open:
            raise NotOpen(self.where)
        check_process(self._pid, self.where)

    async def ready(self) -> grpc.aio.Channel:
        """Return a channel that is connected; try the addresses in turn, for a while.

        Raises:
            Unavailable: none of the servers can be reached.
        """
        self.check_open()
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_SECONDS
        tries = 0
        while True:
            for _ in self._targets:
                channel = self._channel()
                if channel.get_state() is _READY or await _connects(channel):
                    return channel
                self.failed(channel)
            tries += 1
            delay = _LOOKING.delay_after(tries, self.randomness.random()) / 1_000_000
            if loop.time() + delay > end:
                raise await self._unreached()
            await asyncio.sleep(delay)
            self.check_open()

    async def _unreached(self) -> Unavailable:
        """Return why the server cannot be reached: only a call says so."""
        method: Any = self._channel().unary_unary  # the stubs do not know what may be left out
        try:
            await method(_PROBE)(b"", timeout=PROBE_SECONDS)
            details = ""
        except grpc.aio.AioRpcError as error:
            details = error.details() or ""
        return unreached(details, self.where, uses_tls=self.address.uses_tls)

    def failed(self, channel: grpc.aio.Channel) -> None:
        """Use the next address from now on, if this channel is the current one."""
        if self._channels.get(self._targets[self._current]) is channel:
            self._current = (self._current + 1) % len(self._targets)

    async def call(
        self, rpc: Rpc, request: Any, *, timeout: float = CALL_SECONDS, repeats: bool = False
    ) -> Any:
        """Make a call and return the reply.

        Args:
            rpc: The method.
            request: What to send.
            timeout: How many seconds the server has.
            repeats: Whether to send it once more if it is not known whether it arrived.

        Raises:
            Unavailable: no server answered.
            PayloadTooLarge: the request or the reply is too large for one message.
            NotOpen: this was closed meanwhile.
        """
        try:
            return await self._call(rpc, request, timeout, repeats=repeats)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._is_open or task is None or task.cancelling():
                raise
            raise NotOpen(self.where, CLOSED_MEANWHILE) from None  # `close` has ended the call

    async def _call(self, rpc: Rpc, request: Any, timeout: float, *, repeats: bool) -> Any:
        name = getattr(request, "operation", rpc.path.rpartition("/")[2])
        if (size := request.ByteSize()) > self.max_bytes:
            raise PayloadTooLarge(f"the request {name}", size, self.max_bytes)
        while True:
            channel = await self.ready()
            try:
                return await rpc.of(channel)(request, timeout=timeout, metadata=self.metadata)
            except grpc.aio.AioRpcError as error:
                failure = failure_of(error, self.where)
            self.check_open()
            if isinstance(failure, PayloadTooLarge):
                raise PayloadTooLarge(
                    f"the request {name}, or its result,", failure.size_bytes, failure.max_bytes
                )
            self.failed(channel)
            if not repeats or not isinstance(failure, Unavailable):
                raise failure
            repeats = False

    async def stream(self, path: str) -> GrpcTransport:
        """Open a stream to a server that can be reached, by the path of its method.

        Raises:
            Unavailable: there is none.
        """
        channel = await self.ready()
        method: Any = channel.stream_stream  # the stubs do not know what may be left out
        call = method(path)(metadata=self.metadata)
        return GrpcTransport(call, self, partial(self.failed, channel))

    @asynccontextmanager
    async def renewals(self) -> AsyncIterator[Callable[[Rpc, Any, float], Awaitable[Any]]]:
        """Return how a lease is renewed: with calls that block, unless on the loop of this."""
        if asyncio.get_running_loop() is self._loop:

            async def call(rpc: Rpc, request: Any, timeout: float) -> Any:
                return await self.call(rpc, request, timeout=timeout)

            yield call
            return
        blocking = BlockingConnection(self)

        async def call_blocking(rpc: Rpc, request: Any, timeout: float) -> Any:
            return blocking.call(rpc, request, timeout)

        try:
            yield call_blocking
        finally:
            blocking.close()

    def _channel(self) -> grpc.aio.Channel:
        self.check_open()  # or the new channel would stay open
        target = self._targets[self._current]
        if target not in self._channels:
            options = channel_options(is_loopback=not self.address.uses_tls)
            if self._credentials is None:
                self._channels[target] = grpc.aio.insecure_channel(target, options)
            else:
                self._channels[target] = grpc.aio.secure_channel(target, self._credentials, options)
        return self._channels[target]


async def _connects(channel: grpc.aio.Channel) -> bool:
    """Return whether a channel becomes connected at its first try."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            while (state := channel.get_state(try_to_connect=True)) is not _READY:
                if state in _DOWN:
                    return False
                await channel.wait_for_state_change(state)
    except (TimeoutError, grpc.aio.UsageError):  # the latter: it was closed
        return False
    return True


class GrpcTransport:
    """A stream of gRPC that carries bytes."""

    def __init__(self, call: Any, connection: Connection, failed: Callable[[], None]) -> None:
        self._call = call
        self._connection = connection
        self._where = connection.where
        self._failed = failed
        self._largest = 0
        """The size of the largest frame that was written."""

    async def read(self) -> bytes | None:
        try:
            data: Any = await self._call.read()
        except grpc.aio.AioRpcError as error:
            self._failed()
            raise self._failure(error) from None
        if data is not _EOF:
            return cast("bytes", data)
        self._failed()
        return None

    def _failure(self, error: grpc.aio.AioRpcError) -> Exception:
        """Return why the stream broke.

        If the server takes smaller frames than others do, only the frame that it did not take is to
        fail: it is refused when it is sent again on the next stream.
        """
        failure = failure_of(error, self._where)
        if isinstance(failure, PayloadTooLarge) and (
            failure.size_bytes <= self._largest and failure.max_bytes < self._connection.max_bytes
        ):
            self._connection.max_bytes = failure.max_bytes
            fact = f"does not accept messages of more than {failure.max_bytes:,} bytes"
            return Unavailable(self._where, fact)
        return failure

    async def write(self, frame: bytes) -> None:
        if len(frame) > self._connection.max_bytes:
            raise PayloadTooLarge("a message", len(frame), self._connection.max_bytes)
        self._largest = max(self._largest, len(frame))
        try:
            await self._call.write(frame)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            raise Unavailable(self._where, "ended the stream") from None

    async def end(self) -> None:
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()


class BlockingConnection:
    """Channels for a thread that renews a lease, whatever the event loop does meanwhile."""

    def __init__(self, connection: Connection) -> None:
        address = connection.address
        options = channel_options(is_loopback=not address.uses_tls)
        credentials = credentials_of(address)
        self._where, self._metadata = connection.where, connection.metadata
        self._channels = [
            grpc.insecure_channel(target, options)
            if credentials is None
            else grpc.secure_channel(target, credentials, options)
            for target in address.targets
        ]

    def call(self, rpc: Rpc, request: Any, timeout: float) -> Any:
        """Make a call and wait for the reply; the next address is for the next call.

        Raises:
            Unavailable: the server did not answer.
        """
        channel = self._channels[0]
        try:
            return rpc.of(channel)(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            failure = failure_of(error, self._where)
        self._channels.append(self._channels.pop(0))
        raise failure

    def close(self) -> None:
        """Disconnect."""
        for channel in self._channels:
            channel.close()
