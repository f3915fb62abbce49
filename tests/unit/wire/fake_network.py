"""A network without sockets, whose server is the test itself."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from onward.errors import PayloadTooLarge, Unavailable
from onward.model.workers import Registration
from onward.system.clock import SystemRandomness
from onward.wire.messages import messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from onward.core.ports import Randomness

REGISTRATION = Registration("w1", "host", 1, None, ("default",), (), ("work",))


class FakeTransport:
    """One stream; the test reads what was sent and puts what arrives."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self._arriving: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.is_cancelled = False
        self.is_ended = False
        self.max_bytes = 1 << 30
        """A larger frame is refused."""

    # --- the side of the client ------------------------------------------------------------------

    async def read(self) -> bytes | None:
        data = await self._arriving.get()
        if isinstance(data, Exception):
            raise data
        return data

    async def write(self, frame: bytes) -> None:
        if self.is_cancelled:
            raise Unavailable("fake", "is cut")
        if len(frame) > self.max_bytes:
            raise PayloadTooLarge("a message", len(frame), self.max_bytes)
        self._sent.put_nowait(self._request.FromString(frame))

    async def end(self) -> None:
        self.is_ended = True

    def cancel(self) -> None:
        self.is_cancelled = True

    # --- the side of the test --------------------------------------------------------------------

    async def sent(self, name: str | None = None) -> Any:
        """Return the next frame that is no ping; it must be the request of this name."""
        async with asyncio.timeout(10):
            while True:
                frame = await self._sent.get()
                is_ping = frame.ping if hasattr(frame, "watch") else frame.HasField("ping")
                if not is_ping:
                    break
        assert name is None or frame.WhichOneof("request") == name
        return frame

    @property
    def unread(self) -> int:
        """How many frames were sent that the test has not looked at."""
        return self._sent.qsize()

    def put(self, frame: Any) -> None:
        """Let a frame arrive."""
        self.put_bytes(frame.SerializeToString())

    def put_bytes(self, data: bytes) -> None:
        """Let bytes arrive that may be no frame."""
        self._arriving.put_nowait(data)

    def answer(self, request: Any, **response: Any) -> None:
        """Let the response to a request arrive."""
        self.put(messages.Response(id=request.id, **response))

    def cut(self, error: Exception | None = None) -> None:
        """Break the stream."""
        self.is_cancelled = True
        self._arriving.put_nowait(error or Unavailable("fake", "is cut"))


class FakeNetwork:
    """Gives out transports; `refusing` makes it fail."""

    where = "onward://fake"

    def __init__(self, request: Any = messages.Request) -> None:
        self.randomness: Randomness = SystemRandomness()
        self.refusing: Exception | None = None
        self.tries = 0
        self._request = request
        self._opened: asyncio.Queue[FakeTransport] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self.renewing: Callable[[Any, Any, float], Awaitable[Any]] | None = None

    def check_open(self) -> None:
        """It always is."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stream(self, path: str) -> FakeTransport:
        self.tries += 1
        if self.refusing is not None:
            raise self.refusing
        transport = FakeTransport(self._request)
        self._opened.put_nowait(transport)
        return transport

    @asynccontextmanager
    async def renewals(self) -> AsyncIterator[Callable[[Any, Any, float], Awaitable[Any]]]:
        assert self.renewing is not None
        yield self.renewing

    async def opened(self) -> FakeTransport:
        """Return the next stream that was opened."""
        async with asyncio.timeout(10):
            return await self._opened.get()

    async def greeted(self, **welcome: Any) -> tuple[FakeTransport, Any]:
        """Return the next stream that was opened, after its hello was answered, and the hello."""
        transport = await self.opened()
        request = await transport.sent("hello")
        transport.answer(request, hello=messages.Welcome(protocol=1, **welcome))
        return transport, request.hello

    async def close(self) -> None:
        """End all tasks."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
