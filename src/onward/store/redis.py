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


_Hint = tuple[str, frozenset[str]]
"""A channel, and subjects to publish there."""


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
        self._out: Lane[_Hint, bool] = Lane(self._publish, name="onward redis hints")
        self._task: asyncio.Task[None] | None = None
        self._channels: dict[str, RedisChannel] = {}
        self._listening: Any = None
        """The connection that listens, if there is one."""
        self._is_missed = False
        self.ready = asyncio.Event()

    def start(self, sender: str) -> None:
        """Begin to listen; `sender` marks what goes out from here."""
        self._sender = sender
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="onward redis")

    async def join(self, name: str, hints: HintBus) -> RedisChannel:
        """Listen on a channel, until all that joined it have left."""
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = RedisChannel(self, name, hints)
            with contextlib.suppress(Exception):  # the next connection listens on it too
                if self._listening is not None:
                    await self._listening.subscribe(name)
        channel.users += 1
        return channel

    async def remove(self, name: str) -> None:
        """Stop listening on a channel."""
        del self._channels[name]
        with contextlib.suppress(Exception):
            if self._listening is not None:
                await self._listening.unsubscribe(name)

    async def close(self) -> None:
        """Stop listening."""
        self.ready.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._out.close()
        await self._client.aclose()

    def publish(self, channel: str, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon, if Redis is reachable."""
        if self.ready.is_set():
            self._out.submit((channel, frozenset(subjects)))

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # noqa: BLE001 - only hints are lost
                self._miss(error)
            finally:
                self._listening = None
                self.ready.clear()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        async with self._client.pubsub() as news:
            self._listening = news
            await news.subscribe(*self._channels)
            is_asked = False
            while True:
                message = await news.get_message(timeout=_QUIET_SECONDS)
                if message is None and is_asked:
                    raise TimeoutError("it does not answer")
                is_asked = message is None
                if message is None:
                    await news.ping()
                elif message["type"] == "subscribe":
                    self._be_back(_text(message["channel"]))
                elif message["type"] == "message":
                    self._hear(_text(message["channel"]), _text(message["data"]))

    def _be_back(self, name: str) -> None:
        if self._is_missed:
            _log.info("redis back: address=%s", self.where)
        self._is_missed = False
        self.ready.set()
        if name in self._channels:
            # Hints were missed while there was no connection.
            self._channels[name].hints.publish({ANYTHING})

    def _miss(self, error: Exception) -> None:
        if not self._is_missed:
            _log.warning(
                "redis away: address=%s error=%s; changes are found by polling until it is back",
                self.where,
                type(error).__name__,
            )
        self._is_missed = True

    def _hear(self, name: str, data: str) -> None:
        sender, *subjects = unpacked(data)
        # What was sent from here was published here when it was sent.
        if sender != self._sender and name in self._channels:
            self._channels[name].hints.publish(subjects)

    async def _publish(self, gathered: list[_Hint]) -> Sequence[bool]:
        by_channel: dict[str, list[frozenset[str]]] = {}
        for name, subjects in gathered:
            by_channel.setdefault(name, []).append(subjects)
        with contextlib.suppress(Exception):  # a lost hint only delays
            for name, each in by_channel.items():
                await self._client.publish(name, f"{self._sender}\n{packed(each, _MAX_PAYLOAD)}")
        return [True] * len(gathered)


class RedisChannel:
    """The hints of one namespace, on the connection of its database."""

    def __init__(self, redis: RedisCarrier, name: str, hints: HintBus) -> None:
        self._redis = redis
        self._name = name
        self.hints = hints
        self.users = 0

    def publish(self, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon, if Redis is reachable."""
        self._redis.publish(self._name, subjects)

    async def leave(self) -> None:
        """Hear no more of them; the last that leaves ends the channel."""
        self.users -= 1
        if not self.users:
            await self._redis.remove(self._name)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _client(url: str) -> Any:
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError as error:
        advice = "Install it: pip install 'onward[redis]'"
        raise StoreUnusable("Redis", "needs the redis package", advice) from error
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
