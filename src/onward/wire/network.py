"""What remote engines need of a network. gRPC is one; a simulation brings its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from onward.core.retry import Retry

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from onward.core.ports import Randomness
    from onward.wire.rpc import Rpc

RECONNECTING = Retry(attempts=None, delay="100ms", factor=2, max_delay="5s", jitter=0.5)
"""How long to wait before a stream is opened again."""

STEADY_SECONDS = 1.0
"""After a stream that was open for this long, the next one is opened at once."""

PATIENCE_SECONDS = 2.0
"""For how long a call waits for a server that can be reached."""


class Transport(Protocol):
    """A connection that carries frames in both directions."""

    async def read(self) -> bytes | None:
        """Return the next frame; None: the other side sends no more. It raises if it breaks."""
        ...

    async def write(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            PayloadTooLarge: the server takes no frame of this size.
        """
        ...

    async def end(self) -> None:
        """Send no more."""
        ...

    def cancel(self) -> None:
        """Drop the connection without waiting."""
        ...


class Network(Protocol):
    """The way to the servers of one engine, on one event loop."""

    where: str
    """The address, for messages."""
    randomness: Randomness

    def check_open(self) -> None:
        """Refuse a call while this is not open here."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Start a task that ends no later than this network."""
        ...

    async def stream(self, path: str) -> Transport:
        """Open a stream to a server that can be reached, by the path of its method.

        Raises:
            Unavailable: there is none.
        """
        ...

    def renewals(self) -> AbstractAsyncContextManager[Callable[[Rpc, Any, float], Awaitable[Any]]]:
        """Return how the lease is renewed, to be entered in the loop that renews it.

        It is a function of a method, a request and seconds, and returns the reply.
        """
        ...
