"""The gRPC service of clients: operations, and the ends of runs that they wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import msgspec

from onward.engine.frame_checks import check_client_call, check_rights
from onward.errors import BadInput
from onward.server.faults import problem_of
from onward.server.gate import check_namespace
from onward.server.watched_runs import WatchedRuns
from onward.wire.messages import messages
from onward.wire.operations import BATCHES, OPERATIONS, to_json
from onward.wire.problems import to_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.core.access import Principal
    from onward.server.doors import Doors
    from onward.server.hub import Hub
    from onward.server.limits import StreamLimits
    from onward.wire.operations import Operation

PAYLOADS = "payload:read"

T = TypeVar("T")


class EngineService:
    """`onward.v1.Engine`."""

    def __init__(self, doors: Doors, limits: StreamLimits, name: str) -> None:
        self._doors = doors
        self._limits = limits
        self._name = name
        self.watches: dict[WatchedRuns, None] = {}
        """The open streams."""

    def handler(self) -> Any:
        """Return the service for a gRPC server; it reads and writes bytes."""
        return grpc.method_handlers_generic_handler(
            "onward.v1.Engine",
            {
                "Call": grpc.unary_unary_rpc_method_handler(self._call),
                "Watch": grpc.stream_stream_rpc_method_handler(self._watch),
            },
        )

    async def _call(self, data: bytes, context: Any) -> bytes:
        async with self._doors.call(context, "Call") as (principal, hub):
            request = messages.CallRequest.FromString(data)
            check_namespace(request.namespace, principal)
            try:
                reply = messages.CallReply(result=await self._operate(request, principal, hub))
            except Exception as error:  # noqa: BLE001 - the client gets it
                problem = problem_of(error, self._name, request.operation[:100])
                reply = messages.CallReply(problem=problem)
            size = reply.ByteSize()
            if size > self._limits.reply_bytes:
                problem = to_problem(self._too_large(request.operation, size))
                reply = messages.CallReply(problem=problem)
            data_back: bytes = reply.SerializeToString()
            return data_back

    def _too_large(self, operation: str, size: int) -> BadInput:
        limit = self._limits.reply_bytes
        return BadInput(
            f"the result of {operation}",
            f"is {size:,} bytes; a server sends at most {limit:,} bytes in a reply",
            "Ask for less, or open an App with the address of the database",
        )

    async def _operate(self, request: Any, principal: Principal, hub: Hub) -> bytes:
        batch = BATCHES.get(request.operation)
        operation = OPERATIONS.get(request.operation) if batch is None else batch.each
        if operation is None:
            raise BadInput(
                f"operation {request.operation!r}",
                "is unknown to this server",
                "Upgrade the server",
            )
        principal.check(operation.scope)
        if batch is None:
            arguments = _read(operation.read_arguments, request.arguments, operation.name)
            sees_payloads = principal.allows(PAYLOADS)
            if not sees_payloads and operation.selects_by_payload(arguments):
                principal.check(PAYLOADS)
            result = await self._do(operation, principal, hub, arguments)
            return to_json(result if sees_payloads else operation.without_payloads(result))
        items = _read(batch.read_items, request.arguments, batch.name)
        self._doors.admit(principal, len(items))
        answers = await asyncio.gather(
            *(self._do_item(operation, principal, hub, item) for item in items),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                problem_of(answer, self._name, batch.name)  # it is logged if it is unexpected
        return batch.write_answers(answers)

    async def _do_item(
        self, operation: Operation, principal: Principal, hub: Hub, item: bytes
    ) -> object:
        arguments = _read(operation.read_arguments, item, operation.name)
        return await self._do(operation, principal, hub, arguments)

    async def _do(
        self, operation: Operation, principal: Principal, hub: Hub, arguments: Mapping[str, Any]
    ) -> object:
        check_rights(principal, operation.name, arguments)
        check_client_call(operation.name, arguments, self._doors.payload_bytes)
        engine = getattr(hub.client, operation.group) if operation.group else hub.client
        return await getattr(engine, operation.method)(**arguments)

    async def _watch(self, _requests: object, context: Any) -> None:
        async with self._doors.stream(context, "Watch") as (principal, hub):
            principal.check(PAYLOADS)
            watches = WatchedRuns(hub, principal, self._limits, self._name)
            self.watches[watches] = None
            try:
                await watches.serve(context)
            finally:
                del self.watches[watches]


def _read(decode: Callable[[bytes], T], arguments: bytes, operation: str) -> T:
    """Return the arguments of a call.

    Raises:
        BadInput: they do not fit the operation.
    """
    try:
        return decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        what = f"the arguments of {operation}"
        advice = "Use compatible versions of client and server"
        raise BadInput(what, f"are not valid ({error})", advice) from error
