"""Sends pings on all streams, and ends those that are dead or whose key was revoked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from onward.errors import OnwardError
from onward.server.limits import PING_SECONDS, SILENCE_SECONDS
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from onward.core.access import Principal
    from onward.server.outbox import Outbox

LOOK_SECONDS = 1.0

_INVALID = "the key is no longer valid"
_MISSING = "the server now requires a key"


class OpenStream(Protocol):
    """A stream of a worker or a client."""

    principal: Principal
    outbox: Outbox
    heard_at: float
    """When a frame arrived last, by the clock of the event loop."""
    pinged_at: float

    def ping(self) -> None:
        """Send a frame, so that proxies do not close the stream."""
        ...

    def end(self, why: str) -> None:
        """End the stream."""
        ...


class Keepalive:
    """Looks after all streams of a server.

    Args:
        streams: Returns those that are open.
        is_valid: Returns whether the key of a stream can still be used; "" is a stream without one.
        server: The name of the server, for its log.
    """

    def __init__(
        self,
        streams: Callable[[], Iterable[OpenStream]],
        is_valid: Callable[[str], Awaitable[bool]],
        server: str = "",
    ) -> None:
        self._streams = streams
        self._is_valid = is_valid
        self._server = server

    async def run(self) -> None:
        """Look once a second; pings do not wait for a slow database, which keys are read from."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_every_second())
            tasks.create_task(self._end_revoked_every_second())

    async def _look_every_second(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look(loop.time())

    async def _end_revoked_every_second(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.end_revoked()
            except Exception as error:  # noqa: BLE001 - one failure must not end this for good
                emit("server.failed", server=self._server, where="keys", cause=error)

    def look(self, now: float) -> None:
        """Send pings that are due, and end streams on which nothing arrives."""
        for stream in self._streams():
            if now - stream.heard_at > SILENCE_SECONDS:
                stream.end("the client was silent for too long")
            elif stream.outbox.is_stuck(now):
                stream.end("the client stopped reading responses")
            elif now - stream.pinged_at >= PING_SECONDS:
                stream.pinged_at = now
                stream.ping()

    async def end_revoked(self) -> None:
        """End the streams whose key was revoked or has expired, or that have none and need one."""
        keys = {stream.principal.key_id for stream in self._streams()}
        for key in keys:
            try:
                is_valid = await self._is_valid(key)
            except OnwardError:  # the database is away, and the key was never read here
                continue
            if not is_valid:
                for stream in self._streams():
                    if stream.principal.key_id == key:
                        stream.end(_INVALID if key else _MISSING)
