"""The frames that wait to be sent on one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from onward.errors import PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.server.limits import StreamLimits


class Outbox:
    """A queue of frames.

    What can be large waits for room before it is put here, and no requests are read while the queue
    is full. A client that does not take a frame for some seconds is disconnected by `Keepalive`,
    which looks once a second: a timer for each frame took a tenth of the time of a lone commit.
    """

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        """What the sender waits for while there is no frame. An event for it would ask the system
        for the process id at each wait."""
        self._has_taken = asyncio.Event()
        self._is_ended = False
        self._sending_since: float | None = None
        """When the frame was begun that the client has not taken yet, by the clock of the loop."""

    @property
    def is_full(self) -> bool:
        """Whether no more requests are to be read."""
        return self._has_used(1)

    @property
    def unsent(self) -> int:
        """How many frames wait to be sent."""
        return len(self._frames)

    def is_stuck(self, now: float) -> bool:
        """Return whether the client has stopped reading."""
        since = self._sending_since
        return since is not None and now - since > self._limits.unread_seconds

    def _has_used(self, share: float) -> bool:
        limits = self._limits
        is_over = self._bytes >= share * limits.unsent_bytes
        return not self._is_ended and (is_over or len(self._frames) >= share * limits.unsent_frames)

    async def has_room(self, share: float = 0.5) -> None:
        """Wait until no more than a share of the queue is in use: small frames need the rest."""
        while self._has_used(share):
            self._has_taken.clear()
            await self._has_taken.wait()

    def put(self, frame: Any, what: str = "a response") -> None:
        """Send a frame, after those that are already queued.

        Raises:
            PayloadTooLarge: no client would accept it, and gRPC would end the stream.
        """
        if self._is_ended:
            return
        data = frame.SerializeToString()
        if len(data) > self._limits.reply_bytes:
            raise PayloadTooLarge(what, len(data), self._limits.reply_bytes)
        self._frames.append(data)
        self._bytes += len(data)
        self._wake_sender()

    def _wake_sender(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> None:
        """Take no more frames; those that wait are sent."""
        self._is_ended = True
        self._wake_sender()
        self._has_taken.set()

    async def send(self, write: Callable[[bytes], Awaitable[object]]) -> None:
        """Send frames until the end."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._frames:
                    self._sending_since = loop.time()
                    await write(self._frames[0])
                    self._sending_since = None
                    self._bytes -= len(self._frames.popleft())
                    self._has_taken.set()
                if self._is_ended:
                    return
                self._waiter = loop.create_future()
                await self._waiter
        finally:
            self.end()
            self._frames.clear()  # the stream may stay in memory until garbage is collected
            self._bytes = 0
