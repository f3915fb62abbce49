"""On which addresses a server may listen, and whether it may accept calls without a key."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

from onward.errors import BadInput

MAX_PORT = 65_535


class Protection(NamedTuple):
    """What protects a server.

    Attributes:
        has_keys: Its database has API keys, so it accepts no call without one.
        has_tls: It has a certificate.
        behind_proxy: A proxy in front of it terminates TLS, as its administrator says.
    """

    has_keys: bool = False
    has_tls: bool = False
    behind_proxy: bool = False


def check_address(address: str) -> None:
    """Refuse a text that is no address.

    Raises:
        BadInput: it is neither a host with a port nor a socket.
    """
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") or (host and port.isdecimal() and int(port) <= MAX_PORT):
        return
    raise BadInput(
        f"address {address!r}", "is not of the form HOST:PORT", "Write it like 127.0.0.1:7170"
    )


def is_loopback(address: str) -> bool:
    """Return whether only processes of the same machine can reach an address.

    Args:
        address: A host with a port (`127.0.0.1:7170`, `[::1]:7170`), or the path of a socket
            (`unix:/run/onward.sock`).
    """
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def may_be_open(address: str, *, behind_proxy: bool = False) -> bool:
    """Return whether a server may accept calls without a key for as long as there are no keys."""
    return is_loopback(address) and not behind_proxy


def check_binding(address: str, protection: Protection) -> None:
    """Refuse to listen where other machines could call without a key, or read keys on the way.

    A proxy brings calls of other machines to any address, so behind one keys are always needed.

    Raises:
        BadInput: keys or TLS are missing.
    """
    if may_be_open(address, behind_proxy=protection.behind_proxy):
        return
    if not protection.has_keys:
        raise BadInput(
            f"address {address}",
            "can be reached from other machines, but the database has no API keys",
            "Create the first key with `onward keys create --name NAME --role admin`, or listen"
            " on 127.0.0.1",
        )
    if not (protection.has_tls or protection.behind_proxy):
        raise BadInput(
            f"address {address}",
            "can be reached from other machines, but the server has no certificate for TLS",
            "Pass --tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS, or listen"
            " on 127.0.0.1",
        )
