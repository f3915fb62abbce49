"""What the errors of Postgres and its driver mean to us."""

from __future__ import annotations

import asyncpg

from onward.errors import OnwardError, Rejected, StoreUnusable, Unavailable
from onward.store.writing.lane import Contended

POOLER = (
    "is behind a transaction pooler, which does not keep what belongs to a session",
    "Add ?pgbouncer=true to the address",
)
_SET_UP = {
    "28P01": ("refused the password", "Check user and password in the address"),
    "28000": ("refused this user", "Check the address, and pg_hba.conf on the server"),
    "3D000": ("has no database of that name", "Create it: createdb NAME"),
    "42501": (
        "does not let this user use or create the schema",
        "Let an owner run the migration once, or grant CREATE on the database",
    ),
    "26000": POOLER,
    "42P05": POOLER,
}
# Classes of SQLSTATE after which the same statement may be sent again.
_AGAIN = ("08", "40", "53", "57")
_READ_ONLY = "25006"
_LOCK_TIMEOUT = "55P03"
_LOST = (
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionError,
    OSError,
    TimeoutError,
    EOFError,
)


def told(error: BaseException, where: str) -> OnwardError | None:
    """Return what an error means to us, or `None` if it is none of the driver's."""
    if isinstance(error, asyncpg.PostgresError):
        return _from_server(error, where)
    if isinstance(error, asyncpg.DataError | UnicodeError | OverflowError):
        return Rejected(f"a value that Postgres cannot store ({type(error).__name__})")
    if isinstance(error, _LOST):
        return Unavailable(where, f"cannot be reached ({type(error).__name__})")
    return None


def _from_server(error: asyncpg.PostgresError, where: str) -> OnwardError:
    state = error.sqlstate or ""
    if state in _SET_UP:
        return StoreUnusable(where, *_SET_UP[state])
    if state == _LOCK_TIMEOUT:
        return Contended(where, "has a transaction open that holds what this write needs")
    if state.startswith(_AGAIN) or state == _READ_ONLY:
        return Unavailable(where, f"cannot write now ({state} {type(error).__name__})")
    # The detail of a server error may quote values, so it stays out of the message.
    return Rejected(f"{state} {type(error).__name__}")
