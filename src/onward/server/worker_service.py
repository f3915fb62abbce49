"""The gRPC service of workers: their streams, and the renewals of their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from grpc.aio import EOF  # type: ignore[attr-defined]  # the stubs lack it

from onward.engine.frame_checks import DEFAULT_LIMITS, check_arguments
from onward.errors import WriteRefused
from onward.server.stream import check_lease, serve_worker
from onward.wire.messages import messages

if TYPE_CHECKING:
    from onward.server.doors import Doors
    from onward.server.limits import StreamLimits


class WorkerService:
    """`onward.v1.Workers`.

    A key does nothing for a worker that has joined with another key: the answer is the same as for
    a worker that does not exist.
    """

    def __init__(self, doors: Doors, limits: StreamLimits, name: str) -> None:
        self._doors = doors
        self._limits = limits
        self._name = name

    def handler(self) -> Any:
        """Return the service for a gRPC server; it reads and writes bytes."""
        return grpc.method_handlers_generic_handler(
            "onward.v1.Workers",
            {
                "Work": grpc.stream_stream_rpc_method_handler(self._work),
                "Renew": grpc.unary_unary_rpc_method_handler(self._renew),
                "ReleaseOthers": grpc.unary_unary_rpc_method_handler(self._release_others),
                "NoteBlocked": grpc.unary_unary_rpc_method_handler(self._note_blocked),
            },
        )

    async def _work(self, _requests: object, context: Any) -> None:
        async with self._doors.stream(context, "Work") as (principal, hub):
            await serve_worker(ContextTransport(context), principal, hub, self._limits, self._name)

    async def _renew(self, data: bytes, context: Any) -> bytes:
        async with self._doors.call(context, "Renew") as (principal, hub):
            principal.check_worker()
            request = messages.RenewRequest.FromString(data)
            check_lease(request.length)
            if not await hub.has_joined(request.worker, principal):
                return _bytes(messages.RenewReply())
            renewed = await hub.renewals.renew(request.worker, request.length)
            at = 0 if renewed.until is None else renewed.until - request.length
            return _bytes(
                messages.RenewReply(is_kept=renewed.is_kept, is_draining=renewed.drains, at=at)
            )

    async def _release_others(self, data: bytes, context: Any) -> bytes:
        async with self._doors.call(context, "ReleaseOthers") as (principal, hub):
            principal.check_worker()
            request = messages.ReleaseOthersRequest.FromString(data)
            check_lease(request.length)
            if not await hub.has_joined(request.worker, principal):
                return _bytes(messages.ReleaseOthersReply())
            session = hub.sessions.get(request.worker)
            if session is not None:  # it is blocked: what it claims now would wait
                await session.finish_claim()
            released = await hub.store.release_others(
                request.worker, list(request.blocking), request.length
            )
            return _bytes(messages.ReleaseOthersReply(released=released))

    async def _note_blocked(self, data: bytes, context: Any) -> bytes:
        async with self._doors.call(context, "NoteBlocked") as (principal, hub):
            principal.check_worker()
            request = messages.NoteBlockedRequest.FromString(data)
            given = {"run": request.run, "error": request.error}
            if (refusal := check_arguments(DEFAULT_LIMITS, given)) is not None:
                raise WriteRefused(*refusal)
            if await hub.has_joined(request.worker, principal):
                await hub.store.note_blocked(request.worker, request.run, request.error)
            return _bytes(messages.NoteBlockedReply())


class ContextTransport:
    """A stream of gRPC, as the server side has it."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.write = context.write

    async def read(self) -> bytes | None:
        """Return the next frame; None: the other side sends no more."""
        data = await self._context.read()
        return None if data is EOF else data


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
