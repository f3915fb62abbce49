"""Hints between processes by LISTEN and NOTIFY.

The listening connection does nothing else: a driver may keep a session busy after preparing a
statement, and a busy session is sent no notifications. Notifying is done after the commit, and one
notification speaks for everything that gathered meanwhile, because a transaction that notifies
takes a lock of the whole server when it commits. Callers' own transactions do notify: no other
process learns when they commit, and that lock is not taken before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from typing import TYPE_CHECKING, Any

from onward.errors import OnwardError
from onward.store.hints import ANYTHING, packed, unpacked
from onward.store.postgres.pool import Pool, connect
from onward.store.writing.lane import Lane

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.store.address import PostgresAddress
    from onward.store.hints import HintBus

_MAX_PAYLOAD = 7000  # Postgres takes less than 8000 bytes
_RECONNECT_SECONDS = 1.0
_QUIET_SECONDS = 30.0
"""How often the connection is probed."""
_ANSWER_SECONDS = 5.0


def channel_of(address: PostgresAddress, namespace: str) -> str:
    """Return the channel on which hints of a namespace are carried."""
    name = hashlib.blake2b(f"{address.schema}/{namespace}".encode(), digest_size=12).hexdigest()
    return f"onward_{name}"


class Listener:
    """Carries hints from and to other processes while the server is reachable.

    One connection listens on the channels of all namespaces that are open.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._channels: dict[str, Channel] = {}
        self._pool = Pool(address, 1)
        self._out: Lane[tuple[str, frozenset[str]], bool] = Lane(self._notify, name="onward hints")
        self._sender = 0
        """The server process of the connection that notifies."""
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        """Set when a channel was added or removed, or the connection is lost."""

    def start(self) -> None:
        self._pool.open()
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="onward listener")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        try:
            await self._out.close()
            if self._task is not None:
                await asyncio.wait([self._task])
        finally:
            await self._pool.close()

    def join(self, namespace: str, hints: HintBus) -> Channel:
        """Listen on the channel of a namespace, until all that joined it have left."""
        name = channel_of(self._address, namespace)
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(self, name, hints)
            self._changed.set()
        channel.users += 1
        return channel

    def remove(self, channel: str) -> None:
        """Stop listening on a channel."""
        del self._channels[channel]
        self._changed.set()

    def publish(self, channel: str, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon."""
        self._out.submit((channel, frozenset(subjects)))

    async def flush(self) -> None:
        """Wait until everything that was published has been sent."""
        await self._out.close()

    async def _listen(self) -> None:
        while True:
            # Until it is back, changes are found by polling.
            with contextlib.suppress(Exception):
                await self._listen_once()
            for channel in self._channels.values():
                channel.ready.clear()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        lost = asyncio.Event()
        connection = await connect(self._address)
        try:
            connection.add_termination_listener(lambda _: lost.set())
            connection.add_termination_listener(lambda _: self._changed.set())
            heard: set[str] = set()
            while True:
                self._changed.clear()
                if lost.is_set():
                    return
                await self._follow(connection, heard)
                try:
                    async with asyncio.timeout(_QUIET_SECONDS):
                        await self._changed.wait()
                except TimeoutError:  # a connection may die silently
                    await connection.execute("SELECT 1", timeout=_ANSWER_SECONDS)
        finally:
            connection.terminate()

    async def _follow(self, connection: Any, heard: set[str]) -> None:
        """Listen on the channels that are open and on no others."""
        for name in self._channels.keys() - heard:
            await connection.add_listener(name, self._heard)
            heard.add(name)
        for name in heard - self._channels.keys():
            await connection.remove_listener(name, self._heard)
            heard.discard(name)
        for name, channel in self._channels.items():
            if name in heard and not channel.ready.is_set():
                # Hints were missed while there was no connection.
                channel.hints.publish({ANYTHING})
                channel.ready.set()

    def _heard(self, _connection: Any, sender: int, name: str, payload: str) -> None:
        channel = self._channels.get(name)
        # What was sent from here was published here when it was sent.
        if sender != self._sender and channel is not None:
            channel.hints.publish(unpacked(payload))

    async def _notify(self, gathered: list[tuple[str, frozenset[str]]]) -> Sequence[bool]:
        by_channel: dict[str, list[frozenset[str]]] = {}
        for name, subjects in gathered:
            by_channel.setdefault(name, []).append(subjects)
        payloads = [packed(each, _MAX_PAYLOAD) for each in by_channel.values()]

        async def notify(connection: Any) -> None:
            self._sender = connection.get_server_pid()
            await connection.execute(_NOTIFY, list(by_channel), payloads)

        with contextlib.suppress(OnwardError):  # a lost hint only delays
            await self._pool.run(notify, patience=0)
        return [True] * len(gathered)


_NOTIFY = "SELECT pg_notify(name, payload) FROM unnest($1::text[], $2::text[]) c (name, payload)"


class Channel:
    """The hints of one namespace, on the listener of its database."""

    def __init__(self, listener: Listener, name: str, hints: HintBus) -> None:
        self._listener = listener
        self._name = name
        self.hints = hints
        self.users = 0
        self.ready = asyncio.Event()
        """Set while hints of other processes arrive."""

    def publish(self, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon."""
        if self.users:
            self._listener.publish(self._name, subjects)

    def leave(self) -> None:
        """Hear no more of them; the last that leaves ends the channel."""
        if self.users:
            self.users -= 1
            if not self.users:
                self._listener.remove(self._name)
