"""Renewing the lease of a remote worker, from a thread of its own or on the event loop."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.wire.messages import messages
from onward.wire.rpc import NOTE_BLOCKED, RELEASE_OTHERS, RENEW

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping

    from onward.core.instant import Duration
    from onward.engine.worker_engine import Renewer
    from onward.wire.network import Network
    from onward.wire.rpc import Rpc

MAX_SECONDS = 5.0
"""How long a call may take."""
TRIES_A_LEASE = 8
"""How many renewals that get no answer fit into a lease, at least."""


class RemoteRenewer:
    """A `Renewer` that calls a server.

    Args:
        worker: The id of the worker.
        call: Calls the server.
        on_drain: Called if an operator wants the worker to leave.
    """

    def __init__(
        self,
        worker: str,
        call: Callable[[Rpc, Any, float], Awaitable[Any]],
        on_drain: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._call = call
        self._on_drain = on_drain

    async def renew(self, length: Duration) -> bool:
        request = messages.RenewRequest(worker=self._worker, length=length)
        reply = await self._call(RENEW, request, min(MAX_SECONDS, length / SECOND / TRIES_A_LEASE))
        if reply.is_draining:
            self._on_drain()
        return bool(reply.is_kept)

    async def release_others(
        self, blocking: Collection[str], length: Duration
    ) -> Mapping[str, int]:
        request = messages.ReleaseOthersRequest(
            worker=self._worker, blocking=blocking, length=length
        )
        return dict((await self._call(RELEASE_OTHERS, request, MAX_SECONDS)).released)

    async def note_blocked(self, run: str, error: bytes) -> None:
        request = messages.NoteBlockedRequest(worker=self._worker, run=run, error=error)
        await self._call(NOTE_BLOCKED, request, MAX_SECONDS)


@asynccontextmanager
async def open_renewer(
    network: Network,
    loop: asyncio.AbstractEventLoop,
    worker: str,
    on_drain: Callable[[], None],
) -> AsyncIterator[Renewer]:
    """Open what renews a lease, in the loop that renews it; `loop` is the one of the worker."""
    async with network.renewals() as call:
        yield RemoteRenewer(worker, call, lambda: _call_in(loop, on_drain))


def _call_in(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(work)
