"""Which connections of callers may carry writes to a SQLite database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from onward.errors import StoreUnusable
from onward.store.callers.admission import Admission, packages_of
from onward.store.sqlite import callers
from onward.store.sqlite.library import has_wal_reset_bug, sqlite3

if TYPE_CHECKING:
    from onward.store.callers.caller import Caller
    from onward.store.sqlite.file import File


class SqliteAdmission(Admission):
    """Takes connections of our own SQLite library to the file that the store is in."""

    known = frozenset({"aiosqlite", "sqlalchemy", "sqlite3", "pysqlite3"})

    def __init__(self, connection: object, where: str, file: File, *, waits: bool) -> None:
        super().__init__(connection, where, waits=waits)
        self._file = file

    async def _examined(self, inner: object) -> Caller:
        caller = callers.caller(inner, packages_of(inner), waits=self._waits)
        if caller is None or not await _reaches(caller, self._file.path):
            raise self._refusal()
        locks = self._file.locks
        if has_wal_reset_bug() and locks is not None and not locks.alone():
            raise StoreUnusable(
                f"SQLite {sqlite3.sqlite_version}",
                "may damage the file if your transaction commits while another process uses it",
                "Install a newer version: pip install 'onward[sqlite]'",
            )
        return caller

    def _drivers(self) -> str:
        ours = sqlite3.__name__  # with the [sqlite] extra it is not the interpreter's
        return f"{ours}{', aiosqlite' if self._waits else ''}, or SQLAlchemy on top of it"


async def _reaches(caller: Caller, path: Path | None) -> bool:
    """Return whether a caller's connection is one to the database at `path`."""
    [_, _, name] = (await caller.fetch("PRAGMA database_list"))[0]
    if path is not None:
        return bool(name) and _is_same(name, path)
    there = await caller.fetch("SELECT 1 FROM sqlite_master WHERE name = 'onward_outbox'")
    return not name and bool(there)


def _is_same(name: str, path: Path) -> bool:
    return Path(name).samefile(path)
