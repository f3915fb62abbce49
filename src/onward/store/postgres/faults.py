"""Translation of errors of Postgres and its driver."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg

from onward.errors import OnwardError, Rejected, StoreUnusable, Unavailable
from onward.store.writing.lane import Contended

if TYPE_CHECKING:
    from onward.store.address import PostgresAddress

_POOLER = (
    "is behind a transaction pooler, which does not keep session state",
    "Add ?pgbouncer=true to the address",
)
# What is wrong with an address or a server that this process has never used. If it has, the server
# was changed since (a password rotated, a database restored), and the call is tried again.
_SET_UP = {
    "28P01": ("refused the password", "Check the user and the password in the address"),
    "28000": ("refused this user", "Check the address, and pg_hba.conf on the server"),
    "3D000": ("names a database that does not exist", "Create it: createdb NAME"),
    "3F000": ("has lost its schema", "Restore it, or restart this process"),
    "42P01": ("has lost its tables", "Restore them, or restart this process"),
    "42501": (
        "does not let this user use or create the schema",
        "Run 'onward migrate' as a role that may create it, then grant this user USAGE on it, and"
        " SELECT, INSERT, UPDATE and DELETE on its tables",
    ),
    "26000": _POOLER,
    "42P05": _POOLER,
}
_NOW = {
    "08P01": "refused the connection",
    "25006": "is read-only; it may be a standby",
    "25P03": "ended a transaction that this process left idle",
    "53100": "has no space left on its disk",
    "53300": "has no free connection",
    "57P01": "is shutting down",
    "57P02": "is restarting after a crash",
    "57P03": "is starting up or shutting down",
}
# Classes of SQLSTATE after which the same statement may be sent again.
_AGAIN = ("08", "40", "53", "57", "58")
_NO_TABLE_RIGHTS = (
    "does not let this user read or write the tables of the schema",
    "Grant this user SELECT, INSERT, UPDATE and DELETE on all tables of the schema",
)
_POOLER_SPEAKS = "08P01"
_LOCK_TIMEOUT = "55P03"
LOST = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
    OSError,
    TimeoutError,
    EOFError,
)
"""What the driver raises when a connection or the route to the server is lost."""


def translate_error(
    error: BaseException, address: PostgresAddress, *, is_proven: bool = False
) -> OnwardError | None:
    """Translate an error of the driver, or return `None` for any other.

    Args:
        error: What was raised.
        address: Where.
        is_proven: The database could be used before: then nothing is wrong with the address.
    """
    where = str(address)
    if isinstance(error, StoreUnusable) and is_proven:
        return Unavailable(where, f"{error.fact}, though it worked before", error.advice)
    if isinstance(error, Unavailable):
        return error
    if isinstance(error, asyncpg.PostgresError):
        return _from_server(error, address, is_proven=is_proven)
    if isinstance(error, asyncpg.DataError | UnicodeError | OverflowError):
        return Rejected(f"Postgres cannot store a value ({type(error).__name__})")
    if isinstance(error, LOST):
        return _unreached(error, address, is_proven=is_proven)
    return None


def _unreached(error: BaseException, address: PostgresAddress, *, is_proven: bool) -> Unavailable:
    """Return the error for a server that is away; at first, the address may be wrong."""
    fact, parts = f"cannot be reached ({type(error).__name__})", urlsplit(address.url)
    if isinstance(error, socket.gaierror):
        fact = f"cannot be reached: host {parts.hostname!r} cannot be resolved"
    if is_proven or not isinstance(error, socket.gaierror | ConnectionRefusedError):
        return Unavailable(str(address), fact)
    if isinstance(error, ConnectionRefusedError):
        fact = f"cannot be reached: no server accepts connections there ({type(error).__name__})"
        return Unavailable(str(address), fact, "Start the server, or check the host and the port")
    return Unavailable(str(address), fact, "Check the host in the address, and the network")


def _from_server(
    error: asyncpg.PostgresError, address: PostgresAddress, *, is_proven: bool
) -> OnwardError:
    state, where = error.sqlstate or "", str(address)
    if state == _POOLER_SPEAKS and not (address.pooled or is_proven):
        return StoreUnusable(where, *_POOLER)  # of what we tell a server when we connect
    if state in _SET_UP:
        fact, advice = _SET_UP[state]
        if str(error).startswith("permission denied for table"):  # if the server speaks English
            fact, advice = _NO_TABLE_RIGHTS
        if (fact, advice) == _POOLER and address.pooled:
            return Unavailable(where, f"switched to a different session ({state})")
        if is_proven:
            return Unavailable(where, f"{fact}, though it worked before ({state})", advice)
        return StoreUnusable(where, fact, advice)
    if state == _LOCK_TIMEOUT:
        return Contended(where, "has an open transaction that locks rows that this write needs")
    if state.startswith(_AGAIN) or state in _NOW:
        fact = _NOW.get(state, "cannot write now")
        return Unavailable(where, f"{fact} ({state} {type(error).__name__})")
    # The detail of a server error may quote values, so it stays out of the message.
    return Rejected(f"{state} {type(error).__name__}")
