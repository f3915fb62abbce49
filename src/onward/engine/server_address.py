"""Addresses of Onward servers: `onward://host:7170`, several hosts, and how they are trusted."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from onward.errors import BadStoreUrl
from onward.store.address import BadServerUrl, split_server

SCHEME = "onward"
PORT = 7170
MAX_OPTION = 20
"""The length up to which the name of an unknown option is shown; what is longer may be a key."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where servers of one installation are, in the order in which they are tried."""

    targets: tuple[str, ...]
    """The hosts with their ports."""
    uses_tls: bool
    ca: Path | None = None
    """The file with the certificate authority of the servers; None: those of the system."""
    cert: Path | None = None
    """The file with the certificate and the private key of the client, if servers ask for one."""

    def __str__(self) -> str:
        files = {"ca": self.ca, "cert": self.cert}
        options = urlencode({name: path for name, path in files.items() if path}, safe="/")
        return f"{SCHEME}://{','.join(self.targets)}{'?' if options else ''}{options}"


def is_server(url: object) -> bool:
    """Return whether an address is one of a server, and not of a database."""
    return isinstance(url, str) and url.lower().startswith(f"{SCHEME}://")


def parse_server(url: str, folder: Path | None = None) -> ServerAddress:
    """Parse `onward://host[:port][,host2[:port2]][?ca=FILE&cert=FILE]`.

    The connection uses TLS, unless all hosts are the machine itself and no file is named.

    Args:
        url: The address.
        folder: What a relative file name belongs to; None: the current folder.

    Raises:
        BadStoreUrl: it cannot be understood, or it holds a key.
    """
    fact = None
    try:
        parts = split_server(url)
    except BadServerUrl as error:
        fact = str(error)
    if fact is not None:
        raise BadStoreUrl(f"{SCHEME}://…", fact)
    account, _, hosts = parts.netloc.rpartition("@")
    if account:
        raise BadStoreUrl(
            f"{SCHEME}://…@{hosts}",
            "contains a user name or a key. Pass the key as App(key=...) or in ONWARD_KEY",
        )
    shown = f"{SCHEME}://{hosts}"
    targets = tuple(_with_port(host) for host in hosts.split(","))
    if not all(map(_host_of, targets)):
        raise BadStoreUrl(shown, f"has no host. Write {SCHEME}://host:{PORT}")
    if parts.path.strip("/"):
        raise BadStoreUrl(shown, "has a path after the host. Pass the namespace as App(namespace=)")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    files = {name: options.pop(name) for name in ("ca", "cert") if name in options}
    if options:
        name = next(iter(options))
        known = f"unknown option {name!r}" if len(name) <= MAX_OPTION else "unknown option"
        raise BadStoreUrl(
            shown, f"has an {known}; the options are ca and cert. Pass a key as App(key=...)"
        )
    for name, file in files.items():
        if not file:
            raise BadStoreUrl(shown, f"has an empty {name} option")
    uses_tls = bool(files) or not all(map(_is_loopback, targets))
    paths = {name: (folder or Path()) / Path(file).expanduser() for name, file in files.items()}
    return ServerAddress(targets, uses_tls, **paths)


def _with_port(host: str) -> str:
    return host if host.rpartition("]")[2].partition(":")[2] else f"{host.rstrip(':')}:{PORT}"


def _host_of(target: str) -> str:
    return target.rpartition(":")[0].strip("[]")


def _is_loopback(target: str) -> bool:
    host = _host_of(target)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
