"""Channels of gRPC: their credentials and settings, and what a failed call means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import grpc

from onward.errors import BadInput, PayloadTooLarge, StoreUnusable, Unavailable
from onward.wire.messages import messages
from onward.wire.problems import to_error
from onward.wire.rpc import MAX_MESSAGE_BYTES, MAX_REPLY_BYTES, PROBLEM_METADATA

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from onward.engine.server_address import ServerAddress

KEEPALIVE_SECONDS = 12.0
"""After this long without a byte from the server, the client asks whether it is there.

It is longer than a server takes to send a ping on a stream, so idle workers ask nothing.
"""
KEEPALIVE_REPLY_SECONDS = 15.0
"""How long a server may take to answer that, or the ping that gRPC sends with a call.

Then all calls and streams of the channel end. On a slow line an answer waits behind large messages.
"""

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
    """Return the metadata of every call: who calls, and for which namespace.

    Raises:
        BadInput: the key has characters that no key has; it is not quoted.
    """
    key = None if key is None else key.strip()  # a file that was written by a shell ends in "\n"
    if key is not None and not (key.isascii() and key.isprintable() and key):
        raise BadInput("the API key", "is malformed", "Pass it exactly as it was printed")
    found = [] if key is None else [("authorization", f"Bearer {key}")]
    return (*found, ("onward-namespace", namespace)) if namespace else tuple(found)


def credentials_of(address: ServerAddress) -> grpc.ChannelCredentials | None:
    """Return how a server and its client recognise each other; None: without TLS.

    Raises:
        StoreUnusable: a file of certificates cannot be read.
    """
    if not address.uses_tls:
        return None
    ca, cert = _read(address, "ca", address.ca), _read(address, "cert", address.cert)
    return grpc.ssl_channel_credentials(ca, cert, cert)  # of a key and a chain it takes its own


def _read(address: ServerAddress, option: str, path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise StoreUnusable(
            str(address),
            f"has a {option} file that cannot be read ({error})",
            "Use a readable PEM file",
        ) from None


def channel_options(*, is_loopback: bool) -> Sequence[tuple[str, int]]:
    """Return the settings of a channel."""
    return (
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_REPLY_BYTES),
        ("grpc.keepalive_time_ms", int(KEEPALIVE_SECONDS * 1000)),
        ("grpc.keepalive_timeout_ms", int(KEEPALIVE_REPLY_SECONDS * 1000)),
        ("grpc.http2.ping_timeout_ms", int(KEEPALIVE_REPLY_SECONDS * 1000)),
        ("grpc.http2.max_pings_without_data", 0),  # a call may be answered after minutes
        # A `Connection` decides when to try again; gRPC must not wait longer.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0 if is_loopback else 1),
    )


_REASONS = {
    "Connection refused": (
        "connection refused",
        "Check that the server is running, and check the port",
    ),
    "address lookup failed": ("unknown host name", "Check the host"),
    "has expired": ("its certificate has expired", "Renew the certificate on the server"),
    "VERIFY_FAILED": (
        "its certificate is not trusted",
        "Add its certificate authority to the address: ?ca=FILE",
    ),
    "Hostname": (
        "its certificate is for another host name",
        "Use a host name that the certificate contains",
    ),
    "WRONG_VERSION": ("it does not use TLS", "Start it with --tls-cert and --tls-key"),
    "handshaker": ("the ca or cert file is not in PEM format", "Use another file"),
}
"""What the details of gRPC say about a server that cannot be reached, and what to do."""

_CLOSED = "the connection was closed during the handshake"


def unreached(details: str, where: str, *, uses_tls: bool) -> Unavailable:
    """Return why no connection could be made, as far as gRPC tells."""
    for sign, (reason, advice) in _REASONS.items():
        if sign in details:
            return Unavailable(where, f"cannot be reached: {reason}", advice)
    if "Socket closed" not in details:
        return Unavailable(where, "cannot be reached")
    if uses_tls:
        advice = "If the server asks for a client certificate, add it to the address: ?cert=FILE"
    else:
        advice = "If the server uses TLS, add its certificate authority to the address: ?ca=FILE"
    return Unavailable(where, f"cannot be reached: {_CLOSED}", advice)


_TOO_LARGE = re.compile(r"message larger than max \((\d+) vs\. (\d+)\)")


def failure_of(error: Any, where: str) -> Exception:
    """Return what a failed call means: the error of the server, or that it is unavailable.

    `PayloadTooLarge` means that a message was too large: the same call would fail again.
    """
    for name, value in error.trailing_metadata() or ():
        if name == PROBLEM_METADATA:
            return to_error(messages.Problem.FromString(value))
    code, details = error.code(), error.details() or "the connection ended"
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and (found := _TOO_LARGE.search(details)):
        return PayloadTooLarge(f"a message to or from {where}", int(found[1]), int(found[2]))
    if code in _PASSING:
        return Unavailable(where, f"did not answer ({code.name}: {details})")
    return StoreUnusable(
        where,
        f"refused the call ({code.name}: {details})",
        "Check the address, the key and the server's version",
    )
