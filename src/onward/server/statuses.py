"""The status of a gRPC call that fails with an error."""

from __future__ import annotations

import grpc
from google.protobuf.message import DecodeError

from onward.errors import (
    Conflict,
    Forbidden,
    LeaseLost,
    NamespaceDisabled,
    NotFound,
    OnwardError,
    RateLimited,
    StoreUnusable,
    Unauthenticated,
    Unavailable,
    UserError,
)

_STATUS: tuple[tuple[type[OnwardError], grpc.StatusCode], ...] = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (RateLimited, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (Conflict, grpc.StatusCode.ALREADY_EXISTS),
    (NamespaceDisabled, grpc.StatusCode.FAILED_PRECONDITION),
    (LeaseLost, grpc.StatusCode.ABORTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (StoreUnusable, grpc.StatusCode.UNAVAILABLE),
    (UserError, grpc.StatusCode.INVALID_ARGUMENT),
)


def status_of(error: BaseException) -> grpc.StatusCode:
    """Return the status of a gRPC call that fails with an error."""
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status
    if isinstance(error, DecodeError):
        return grpc.StatusCode.INVALID_ARGUMENT
    return grpc.StatusCode.INTERNAL
