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
    """Carries hints from and to other processes while the server is reachable."""

    def __init__(self, address: PostgresAddress, namespace: str, hints: HintBus) -> None:
        self._channel = channel_of(address, namespace)
        self._address = address
        self._hints = hints
        self._pool = Pool(address, 1)
        self._out: Lane[frozenset[str], bool] = Lane(self._notify, name="onward hints")
        self._sender = 0
        """The server process of the connection that notifies."""
        self._task: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()

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

    def publish(self, subjects: Iterable[str]) -> None:
        """Send hints to other processes, soon."""
        self._out.submit(frozenset(subjects))

    async def _listen(self) -> None:
        while True:
            # Until it is back, changes are found by polling.
            with contextlib.suppress(Exception):
                await self._listen_once()
            self.ready.clear()
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        lost = asyncio.Event()
        connection = await connect(self._address)
        try:
            connection.add_termination_listener(lambda _: lost.set())
            await connection.add_listener(self._channel, self._heard)
            # Hints were missed while there was no connection.
            self._hints.publish({ANYTHING})
            self.ready.set()
            while not lost.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_QUIET_SECONDS):
                        await lost.wait()
                if not lost.is_set():  # a connection may die silently
                    await connection.execute("SELECT 1", timeout=_ANSWER_SECONDS)
        finally:
            connection.terminate()

    def _heard(self, _connection: Any, sender: int, _channel: str, payload: str) -> None:
        if sender != self._sender:  # or they were published here when they were sent
            self._hints.publish(unpacked(payload))

    async def _notify(self, gathered: list[frozenset[str]]) -> Sequence[bool]:
        payload = packed(gathered, _MAX_PAYLOAD)

        async def notify(connection: Any) -> None:
            self._sender = connection.get_server_pid()
            await connection.execute("SELECT pg_notify($1, $2)", self._channel, payload)

        with contextlib.suppress(OnwardError):  # a lost hint only delays
            await self._pool.run(notify, patience=0)
        return [True] * len(gathered)
