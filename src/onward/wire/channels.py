"""Channels of gRPC: their credentials and settings, and what a failed call means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from onward.errors import StoreUnusable, Unavailable
from onward.wire.messages import messages
from onward.wire.problems import to_error
from onward.wire.rpc import MAX_MESSAGE_BYTES, PROBLEM_METADATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.engine.server_address import ServerAddress

_PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)


def metadata_of(key: str | None, namespace: str) -> tuple[tuple[str, str], ...]:
    """Return the metadata of every call: who calls, and for which namespace."""
    found = [] if key is None else [("authorization", f"Bearer {key}")]
    return (*found, ("onward-namespace", namespace)) if namespace else tuple(found)


def credentials_of(address: ServerAddress) -> grpc.ChannelCredentials | None:
    """Return how a server is recognised; None: without TLS.

    Raises:
        StoreUnusable: the file of the certificate authority cannot be read.
    """
    if not address.uses_tls:
        return None
    try:
        ca = None if address.ca is None else address.ca.read_bytes()
    except OSError as error:
        raise StoreUnusable(
            str(address), f"has a ca file that cannot be read ({error})", "Name a readable PEM file"
        ) from None
    return grpc.ssl_channel_credentials(ca)


def channel_options(*, is_loopback: bool) -> Sequence[tuple[str, int]]:
    """Return the settings of a channel."""
    return (
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        # A `Connection` decides when to try again; gRPC must not wait longer.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0 if is_loopback else 1),
    )


def failure_of(error: Any, where: str) -> Exception:
    """Return what a failed call means: the error of the server, or that it is unavailable."""
    for name, value in error.trailing_metadata() or ():
        if name == PROBLEM_METADATA:
            return to_error(messages.Problem.FromString(value))
    code, details = error.code(), error.details() or "the connection ended"
    if code in _PASSING:
        return Unavailable(where, f"did not answer ({code.name}: {details})")
    return StoreUnusable(
        where,
        f"refused the call ({code.name}: {details})",
        "Check the address, the key and the server's version",
    )
