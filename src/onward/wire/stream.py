"""A stream of frames in both directions: ordered writes, pings, and an end after silence."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.errors import OnwardError, PayloadTooLarge, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.wire.network import Network, Transport
    from onward.wire.rpc import Rpc


class Beat(NamedTuple):
    """How often a stream sends a ping, and how long the other side may be silent, in seconds."""

    ping: float = 10.0
    silence: float = 25.0


BEAT = Beat()


class Stream:
    """One stream to a server; `closed` ends with the reason when it is over.

    Args:
        network: The way to the servers.
        rpc: The method.
        on_frame: Called with each frame that arrives.
        ping: The frame to send now and then: proxies cut silent streams.
        beat: How often.
        on_unsent: Called with a frame that is too large to be sent, and the error that says so.
            None: the stream ends with that error.
    """

    def __init__(
        self,
        network: Network,
        rpc: Rpc,
        on_frame: Callable[[Any], None],
        ping: Any,
        beat: Beat = BEAT,
        on_unsent: Callable[[Any, PayloadTooLarge], None] | None = None,
    ) -> None:
        self._on_unsent = on_unsent
        self._network = network
        self._rpc = rpc
        self._on_frame = on_frame
        self._ping = ping
        self._beat = beat
        self._loop = asyncio.get_running_loop()
        self._outgoing: deque[Any] = deque()
        self._has_outgoing = asyncio.Event()
        self._is_ending = False
        self._heard_at = self._loop.time()
        self._transport: Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.failure: Exception | None = None
        """Why it is over."""
        self.closed: asyncio.Task[None] | None = None
        """The task that reads."""

    @property
    def is_open(self) -> bool:
        return self.failure is None and self._transport is not None

    async def open(self) -> None:
        """Connect to a server, and read and write from now on.

        Raises:
            Unavailable: none can be reached.
        """
        self._transport = transport = await self._network.stream(self._rpc.path)
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(self._beat.ping, self._tick)
        self.closed = self._network.spawn(self._read(transport), f"onward reads {self._rpc.path}")

    def send(self, frame: Any) -> None:
        """Send a frame after those before it."""
        self._outgoing.append(frame)
        self._has_outgoing.set()

    def end(self) -> None:
        """Send what is left, and nothing more."""
        self._is_ending = True
        self._has_outgoing.set()

    def close(self, failure: Exception | None = None) -> None:
        """Drop the stream at once."""
        self._fail(failure or Unavailable(self._network.where, "was disconnected"))
        if self.closed is not None:
            self.closed.cancel()

    async def _read(self, transport: Transport) -> None:
        writer = self._network.spawn(self._write(transport), f"onward writes {self._rpc.path}")
        read, decode = transport.read, self._rpc.reply.FromString
        try:
            while (data := await read()) is not None:
                self._heard_at = self._loop.time()
                self._on_frame(decode(data))
            self._fail(Unavailable(self._network.where, "ended the stream"))
        except asyncio.CancelledError:
            self._fail(Unavailable(self._network.where, "was disconnected"))
            raise
        except OnwardError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 - the callers get it
            fact = f"sent a frame that cannot be read ({type(error).__name__})"
            self._fail(Unavailable(self._network.where, fact))
        finally:
            if self._timer is not None:
                self._timer.cancel()
            transport.cancel()
            writer.cancel()

    def _fail(self, failure: Exception) -> None:
        if self.failure is None:
            self.failure = failure

    async def _write(self, transport: Transport) -> None:
        try:
            while True:
                await self._has_outgoing.wait()
                self._has_outgoing.clear()
                while self._outgoing:
                    await self._write_frame(transport, self._outgoing.popleft())
                if self._is_ending:
                    await transport.end()
                    return
        except OnwardError:
            return  # the reader gets the reason

    async def _write_frame(self, transport: Transport, frame: Any) -> None:
        try:
            await transport.write(frame.SerializeToString())
        except PayloadTooLarge as error:
            if self._on_unsent is None:
                self.close(error)
            else:
                self._on_unsent(frame, error)

    def _tick(self) -> None:
        if self._loop.time() - self._heard_at > self._beat.silence:
            self.close(
                Unavailable(
                    self._network.where, f"was silent for more than {self._beat.silence:g} s"
                )
            )
            return
        if not self._is_ending:
            self.send(self._ping)
        self._timer = self._loop.call_later(self._beat.ping, self._tick)
