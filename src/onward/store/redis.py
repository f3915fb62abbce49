"""Hints between processes by Redis: faster than polling where LISTEN is not available.

Nothing is kept there. While Redis is away everything goes on as it does without it; it is tried
again every second, and logs the outage once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from onward.errors import BadInput, StoreUnusable
from onward.store.address import BadServerUrl, split_server
from onward.store.hints import ANYTHING, packed, unpacked
from onward.store.writing.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.store.hints import HintBus

_log = logging.getLogger("onward.store")

_MAX_PAYLOAD = 64 * 1024
_CONNECT_SECONDS = 2.0
_QUIET_SECONDS = 10.0
"""How long the connection may be silent before it is probed."""
_RECONNECT_SECONDS = 1.0


class RedisCarrier:
    """Carries hints from and to other processes while Redis is reachable.

    Args:
        url: `redis://host:6379/0`, `rediss://…` or `unix:///path`.

    Raises:
        BadInput: the address cannot be understood.
        StoreUnusable: the package `redis` is not installed.
    """

    def __init__(self, url: str) -> None:
        self._client = _client(url)
        self.where = _shown(url)
        self._out: Lane[frozenset[str], bool] = Lane(self._publish, name="onward redis hints")
        self._task: asyncio.Task[None] | None = None
        self._is_missed = False
        self.ready = asyncio.Event()

    def start(self, channel: str, sender: str, hints: HintBus) -> None:
        """Begin to listen on a channel; `sender` marks what goes out from here."""
        self._channel = channel
        self._sender = sender
        self._hints = hints
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="onward redis")

    async def close(self) -> None:
        """Stop listening."""
        self.ready.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._out.close()
        await self._client.aclose()

    def publish(self, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon, if Redis is reachable."""
        if self.ready.is_set():
            self._out.submit(frozenset(subjects))

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # noqa: BLE001 - only hints are lost
                self._miss(error)
            finally:
                self.ready.clear()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        async with self._client.pubsub() as news:
            await news.subscribe(self._channel)
            is_asked = False
            while True:
                message = await news.get_message(timeout=_QUIET_SECONDS)
                if message is None and is_asked:
                    raise TimeoutError("it does not answer")
                is_asked = message is None
                if message is None:
                    await news.ping()
                elif message["type"] == "subscribe":
                    self._be_back()
                elif message["type"] == "message":
                    self._hear(message["data"])

    def _be_back(self) -> None:
        if self._is_missed:
            _log.info("redis back: address=%s", self.where)
        self._is_missed = False
        self.ready.set()
        # Hints were missed while there was no connection.
        self._hints.publish({ANYTHING})

    def _miss(self, error: Exception) -> None:
        if not self._is_missed:
            _log.warning(
                "redis away: address=%s error=%s; changes are found by polling until it is back",
                self.where,
                type(error).__name__,
            )
        self._is_missed = True

    def _hear(self, data: bytes) -> None:
        sender, *subjects = unpacked(data.decode(errors="replace"))
        if sender != self._sender:  # the sender has published it in its own process
            self._hints.publish(subjects)

    async def _publish(self, gathered: list[frozenset[str]]) -> Sequence[bool]:
        payload = f"{self._sender}\n{packed(gathered, _MAX_PAYLOAD)}"
        with contextlib.suppress(Exception):  # a lost hint only delays
            await self._client.publish(self._channel, payload)
        return [True] * len(gathered)


def _client(url: str) -> Any:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError as error:
        advice = "Install it: pip install 'onward[redis]'"
        raise StoreUnusable("Redis", "needs the package redis", advice) from error
    try:
        split_server(url)
        return Redis.from_url(
            url,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=_CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),  # this module retries by itself
        )
    except ValueError as error:
        fact = str(error) if isinstance(error, BadServerUrl) else "is not a Redis address"
    # Raised here, so that the client's error is not in its context: it may quote the address.
    advice = "Use redis://host:6379/0, rediss://host:6379/0 or unix:///path"
    raise BadInput("the address in hints=", fact, advice)


def _shown(url: str) -> str:
    """Return an address without user, password and options, fit for logs."""
    parts = split_server(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
