"""A server: a database, its namespaces, and the gRPC services that give access to them."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

import grpc

from onward.core.retention import read_retention
from onward.engine.access.administration import Administration
from onward.engine.access.authenticator import Authenticator
from onward.engine.access.limits import RequestLimits
from onward.engine.local_client import LocalClient
from onward.errors import BadInput, Unavailable
from onward.server.binding import Protection, check_address, check_binding, may_be_open
from onward.server.doors import Doors
from onward.server.engine_service import EngineService
from onward.server.gate import KeyGate
from onward.server.health import HealthService
from onward.server.hub import Hub
from onward.server.keepalive import Keepalive
from onward.server.limits import ENVELOPE_BYTES, STOP_SECONDS, StreamLimits
from onward.server.tls import Certificates
from onward.server.worker_service import WorkerService
from onward.store.opening import open_store
from onward.system.clock import SystemClock, SystemRandomness
from onward.telemetry.events import emit
from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from onward.core.ports import Clock
    from onward.core.retention import Retention
    from onward.engine.access.views import CreatedKey
    from onward.server.keepalive import OpenStream
    from onward.server.session import StreamSession
    from onward.server.tls import CertificateFiles
    from onward.telemetry.observer import Observer

DEFAULT_ADDRESS = "127.0.0.1:7170"
KEEP = read_retention({})
LIMITS = StreamLimits()


class OnwardServer:
    """Gives remote clients and workers access to a database. Use it with `async with`.

    Args:
        url: The database: a file name or `postgresql://…`.
        grpc: The address to listen on; port 0 takes a free one, which `address` then has.
        tls: The files of its certificate; None: connections are not encrypted.
        is_behind_proxy: A proxy in front of the server encrypts, so it needs no TLS of its own.
        pepper: The secret with which keys were hashed (`ONWARD_PEPPER`).
        on_first_key: If the server needs keys and the database has none, it creates one for an
            administrator and passes it here; None: it refuses to start.
        keep: How long ended runs are kept; None deletes none.
        limits: The limits of streams.
        observer: Receives counts and durations.
        clock: A steady clock, and on SQLite the time.
    """

    def __init__(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        url: str,
        *,
        grpc: str = DEFAULT_ADDRESS,
        tls: CertificateFiles | None = None,
        is_behind_proxy: bool = False,
        pepper: str | None = None,
        on_first_key: Callable[[CreatedKey], None] | None = None,
        keep: Retention | None = KEEP,
        limits: StreamLimits = LIMITS,
        observer: Observer = SILENT,
        clock: Clock | None = None,
    ) -> None:
        self.name = f"{socket.gethostname()}-{os.getpid()}-{SystemRandomness().token()[:6]}"
        self.address = grpc
        self._listen = grpc
        check_address(grpc)
        self._tls = None if tls is None else Certificates(tls)
        self._is_behind_proxy = is_behind_proxy
        self._pepper = pepper
        self._on_first_key = on_first_key
        self._keep = keep
        self._limits = limits
        self._observer = observer
        self._store = open_store(url, clock=clock)
        self._clock = clock or SystemClock()
        self._hubs: dict[str, asyncio.Task[Hub]] = {}
        self._is_stopping = False
        self._stack = AsyncExitStack()

    @property
    def where(self) -> str:
        """The database, without passwords."""
        return self._store.database.where

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._store)
            stack.push_async_callback(self._close_hubs)
            administration = Administration(self._store, self._pepper)
            is_open = may_be_open(self._listen, behind_proxy=self._is_behind_proxy)
            await self._protect(administration, is_open=is_open)
            authenticator = Authenticator(self._store, self._clock, self._pepper)
            gate = KeyGate(authenticator, administration, self._clock, is_open=is_open)
            doors = Doors(gate, RequestLimits(self._clock), self.hub, self.name)
            self._workers = WorkerService(doors, self._limits, self.name)
            self._clients = EngineService(doors, self._limits, self.name)
            self._health = HealthService(lambda: not self._is_stopping)
            self._server = self._made()
            if self._tls is not None:
                stack.enter_context(self._tls.reloaded_on_hangup())
            await self._server.start()
            stack.push_async_callback(self._end_streams)
            keepalive = Keepalive(self._streams, gate.still_valid, self.name)
            task = asyncio.create_task(keepalive.run(), name="onward keepalive")
            stack.push_async_callback(_cancelled, task)
            self._stack = stack.pop_all()
        emit("server.ready", server=self.name, store=self.where, address=self.address)
        return self

    async def _protect(self, administration: Administration, *, is_open: bool) -> None:
        """Check that the server may listen where it is to, and create the first key if it needs it.

        Raises:
            BadInput: it may not.
        """
        has_keys, has_tls = await administration.has_keys(), self._tls is not None
        may_have_keys = has_keys or self._on_first_key is not None
        check_binding(self._listen, Protection(may_have_keys, has_tls, self._is_behind_proxy))
        if has_keys or is_open or self._on_first_key is None:
            return
        created = await administration.create_first_key(by="onward server")
        if created is not None:  # another server may have been faster
            self._on_first_key(created)

    def _made(self) -> grpc.aio.Server:
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", self._limits.message_bytes),
                ("grpc.max_send_message_length", self._limits.reply_bytes + ENVELOPE_BYTES),
                ("grpc.max_concurrent_streams", 100_000),
                ("grpc.so_reuseport", 0),
                # Clients send pings on connections that are silent: see `wire/channels.py`.
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
            )
        )
        self.services = (self._workers, self._clients, self._health)
        server.add_generic_rpc_handlers([service.handler() for service in self.services])
        try:
            if self._tls is None:
                port = server.add_insecure_port(self._listen)
            else:
                port = server.add_secure_port(self._listen, self._tls.credentials())
        except RuntimeError as error:
            raise BadInput(
                f"address {self._listen}",
                "cannot be used: it is already in use, or does not belong to this machine",
                "Choose another address with --grpc",
            ) from error
        if not self._listen.startswith("unix:"):
            self.address = f"{self._listen.rpartition(':')[0]}:{port}"
        return server

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop within 10 s: workers reconnect to another server, or wait for this one."""
        if self._is_stopping:
            return
        self._is_stopping = True
        emit("server.stopping", server=self.name, workers=len(self._sessions()))
        await self._stack.aclose()
        emit("server.stopped", server=self.name)

    async def _end_streams(self) -> None:
        """Say goodbye, answer requests in progress, and end all streams."""
        for session in self._sessions():
            session.end("the server is stopping")
        for watches in list(self._clients.watches):
            watches.end("the server is stopping")
        self._health.close()
        await self._server.stop(grace=STOP_SECONDS / 2)

    async def _close_hubs(self) -> None:
        hubs = list(self._hubs.values())
        await asyncio.gather(*map(_close_hub, hubs), return_exceptions=True)

    # --- namespaces ------------------------------------------------------------------------------

    async def hub(self, namespace: str) -> Hub:
        """Return the hub of a namespace, which is opened on first use.

        Raises:
            Unavailable: the server stops, or the database cannot be reached.
        """
        if self._is_stopping:
            raise Unavailable("the server", "is stopping")
        task = self._hubs.get(namespace)
        if task is None:
            task = self._hubs[namespace] = asyncio.create_task(self._open_hub(namespace))
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and self._hubs.get(namespace) is task:
                del self._hubs[namespace]
            raise

    async def _open_hub(self, namespace: str) -> Hub:
        client = LocalClient(self._store.view(namespace), self._clock, None, self._keep)
        given = (self._clock, self.name, self._keep, self._observer, asyncio.to_thread)
        hub = Hub(client, *given)
        return await hub.__aenter__()

    def _open_hubs(self) -> Sequence[Hub]:
        tasks = [task for task in self._hubs.values() if task.done() and not task.cancelled()]
        return [task.result() for task in tasks if task.exception() is None]

    def _sessions(self) -> list[StreamSession]:
        return [session for hub in self._open_hubs() for session in hub.sessions.values()]

    def _streams(self) -> Iterable[OpenStream]:
        return [*self._sessions(), *self._clients.watches]


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def _close_hub(opening: asyncio.Task[Hub]) -> None:
    """Close a hub, which may wait for a database that does not answer."""
    async with asyncio.timeout(STOP_SECONDS / 4):
        hub = await opening
        await hub.__aexit__(None, None, None)
