"""The frames that wait to be sent on one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.server.limits import StreamLimits


class Outbox:
    """A bounded queue of frames; a client that does not read them is disconnected."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._is_filled = asyncio.Event()
        self._is_ended = False
        self.is_overflowing = False

    def put(self, frame: Any) -> None:
        """Send a frame, after those that are already queued."""
        if self._is_ended:
            return
        data = frame.SerializeToString()
        self._frames.append(data)
        self._bytes += len(data)
        if (
            self._bytes > self._limits.unsent_bytes
            or len(self._frames) > self._limits.unsent_frames
        ):
            self.is_overflowing = self._is_ended = True
        self._is_filled.set()

    def end(self) -> None:
        """Take no more frames; those that wait are sent."""
        self._is_ended = True
        self._is_filled.set()

    async def send(self, write: Callable[[bytes], Awaitable[object]]) -> None:
        """Send frames until the end."""
        while not self.is_overflowing:
            while self._frames and not self.is_overflowing:
                data = self._frames.popleft()
                self._bytes -= len(data)
                await write(data)
            if self._is_ended:
                return
            self._is_filled.clear()
            await self._is_filled.wait()
