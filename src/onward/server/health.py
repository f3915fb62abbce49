"""The standard health service of gRPC (grpc.health.v1), for load balancers and probes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    from collections.abc import Callable

UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN = range(4)
SERVICES = frozenset({"", "onward.v1.Workers", "onward.v1.Engine"})

MAX_WATCHES = 100
"""How many streams of `Watch` may be open: they need no key."""


def _messages() -> tuple[Any, Any]:
    """Return the request and the response; both have one field."""
    file = descriptor_pb2.FileDescriptorProto(
        name="grpc/health/v1/health.proto", package="grpc.health.v1", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for name, field, kind in (
        ("HealthCheckRequest", "service", kinds.TYPE_STRING),
        ("HealthCheckResponse", "status", kinds.TYPE_INT32),  # an enum is sent like a number
    ):
        message = file.message_type.add(name=name)
        message.field.add(name=field, number=1, type=kind, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    request, response = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.health.v1.{name}"))
        for name in ("HealthCheckRequest", "HealthCheckResponse")
    )
    return request, response


HealthCheckRequest, HealthCheckResponse = _messages()


class HealthService:
    """`grpc.health.v1.Health`. It needs no key, and says no more than whether the server serves.

    Args:
        is_serving: Returns whether it does; it does until `close`.
    """

    def __init__(self, is_serving: Callable[[], bool]) -> None:
        self._is_serving = is_serving
        self._is_closed = asyncio.Event()
        self._watches = 0

    def handler(self) -> Any:
        """Return the service for a gRPC server; it reads and writes bytes."""
        return grpc.method_handlers_generic_handler(
            "grpc.health.v1.Health",
            {
                "Check": grpc.unary_unary_rpc_method_handler(self._check),
                "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
            },
        )

    def close(self) -> None:
        """End all streams; the server does not serve from now on."""
        self._is_closed.set()

    async def _check(self, data: bytes, context: Any) -> bytes:
        status = self._status(data)
        if status == SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no such service")
        return _encoded(status)

    async def _watch(self, data: bytes, context: Any) -> None:
        if self._watches >= MAX_WATCHES:
            details = f"the server has {MAX_WATCHES} open Watch streams. Use Check, or close some"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
        self._watches += 1
        try:
            sent = self._status(data)
            await context.write(_encoded(sent))
            await self._is_closed.wait()
            if self._status(data) != sent:
                await context.write(_encoded(self._status(data)))
        finally:
            self._watches -= 1

    def _status(self, data: bytes) -> int:
        if HealthCheckRequest.FromString(data).service not in SERVICES:
            return SERVICE_UNKNOWN
        return SERVING if self._is_serving() else NOT_SERVING


def _encoded(status: int) -> bytes:
    data: bytes = HealthCheckResponse(status=status).SerializeToString()
    return data
