"""The SQLite library in use, and the translation of its errors.

The `[sqlite]` extra brings a newer SQLite than the interpreter's; it is taken when it is there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from onward.errors import Rejected, StoreUnusable, Unavailable

if TYPE_CHECKING:
    from onward.errors import OnwardError
else:
    with contextlib.suppress(ImportError):
        from pysqlite3 import dbapi2 as sqlite3

__all__ = [
    "OLDEST",
    "has_wal_reset_bug",
    "is_busy",
    "is_stale_snapshot",
    "sqlite3",
    "translate_error",
]

OLDEST = (3, 37, 0)
"""STRICT tables came with 3.37; nothing newer is used."""

# Primary result codes: the low byte of what SQLite reports.
_BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 5, 6, 8, 10, 11, 13, 14, 26

# It read before another connection committed: an extended code.
_BUSY_SNAPSHOT = 517

_AWAY = {
    _BUSY: "is locked by another program",
    _LOCKED: "is locked by another program",
    _FULL: "has no room left on its disk",
    _IOERR: "cannot be read or written (input/output error)",
    _CANTOPEN: "cannot be opened",
    _READONLY: "is read-only",
}


def has_wal_reset_bug(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Return whether a checkpoint may damage the file when another connection commits meanwhile.

    It was in all releases up to 3.51.2 and was also fixed in 3.44.6 and 3.50.7.
    """
    major, minor, patch = version[:3]
    fixed_in = {(3, 44): 6, (3, 50): 7}.get((major, minor))
    return version < (3, 51, 3) and (fixed_in is None or patch < fixed_in)


def is_busy(error: Exception) -> bool:
    """Return whether another connection has the file locked, which may pass."""
    return _code(error) & 0xFF == _BUSY and not is_stale_snapshot(error)


def is_stale_snapshot(error: Exception) -> bool:
    """Return whether a transaction cannot write any more, as others committed since it has read."""
    return _code(error) == _BUSY_SNAPSHOT


def _code(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0))


def translate_error(error: Exception, where: str) -> OnwardError | None:
    """Translate an error of the library, or return `None` for any other."""
    if isinstance(error, UnicodeError | OverflowError):
        return Rejected(f"SQLite cannot store a value ({type(error).__name__})")
    if not isinstance(error, sqlite3.Error):
        return None
    code = _code(error) & 0xFF
    if code in _AWAY:
        return Unavailable(where, _AWAY[code])
    if code in (_CORRUPT, _NOTADB):
        return StoreUnusable(
            where,
            f"is damaged, or is not a SQLite database ({error})",
            "Restore it from a backup; Onward never repairs a database on its own",
        )
    # The text of an integrity error names columns, never values.
    return Rejected(f"{type(error).__name__}: {error}")
