"""A SQLite file or database in memory, shared by all stores of this process."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, nullcontext, suppress
from typing import TYPE_CHECKING

from onward.errors import Unavailable
from onward.store.hints import HintBuses
from onward.store.sqlite.clock import FileClock
from onward.store.sqlite.connection import DIALECT, connect, data_version, kept_time, migrate
from onward.store.sqlite.files import Presence
from onward.store.sqlite.holders import writer
from onward.store.sqlite.library import is_busy, sqlite3, translate_error
from onward.store.sqlite.locks import Locks
from onward.store.sqlite.threads import Inline, Threaded
from onward.store.sqlite.transaction import Session, Sharing
from onward.store.sqlite.waiting import LockWait
from onward.store.sqlite.watch import FileWatch
from onward.system.clock import SystemClock
from onward.system.process import forked

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from onward.core.ports import Clock, Spawn
    from onward.store.sqlite.threads import JobRunner

READERS = 2


class File:
    """A database file, shared by all stores of this process.

    All writing and checkpointing is done by one connection in one thread; readers only read.
    """

    def __init__(self, path: Path | None, clock: Clock, spawn: Spawn | None) -> None:
        self.path = path
        self.where = ":memory:" if path is None else str(path)
        self.pid = os.getpid()
        self.users = 0
        self.hints = HintBuses()
        self.time = FileClock(clock, self.where)
        self.locks = Locks(path) if path is not None else None
        self.statements = DIALECT.statements()
        self._connections: list[sqlite3.Connection] = []
        self._sharing: Sharing | None = None
        try:
            self._connections.append(self._open())
            self.time.learn(kept_time(self._connections[0]))
            if path is not None and self.locks is not None:
                # Its thread waits in real time, whatever time a test makes.
                watch = FileWatch(self.hints, SystemClock(), data_version(self._connections[0]))
                self._sharing = Sharing(path, self.locks, Presence(path), watch)
        except BaseException:
            self._let_go()
            raise
        self.readers: list[JobRunner] = []
        self.writer: JobRunner
        if spawn is None:
            self.writer = Inline(self._session)
        else:
            self._start_threads(spawn)

    def close(self) -> None:
        """Finish what is queued and close everything, the writer last: it alone may checkpoint."""
        if self.locks is not None:
            self.locks.patience.close()
        for worker in (*self.readers, self.writer):
            worker.close()
        self._let_go()

    def _let_go(self) -> None:
        """Close what no thread has taken over, and release the locks."""
        with ExitStack() as held:
            if self._connections:
                with suppress(Unavailable):  # then another process has it open: nothing is removed
                    held.enter_context(self._alone())
            for connection in self._connections:
                connection.close()
        if self.locks is not None:
            self.locks.close()

    def _alone(self, wait: LockWait | None = None) -> AbstractContextManager[None]:
        return nullcontext() if self.locks is None else self.locks.writing(wait)

    def _open(self) -> sqlite3.Connection:
        """Return a connection to the file, with its schema up to date."""
        wait = None if self.locks is None else LockWait(self.locks.patience)
        while True:
            try:
                # Not even the journal of a new file can be set by two processes at once.
                with self._alone(wait):
                    return _migrated(self.path, self.where)
            except sqlite3.Error as error:
                if self.path is None or wait is None or not is_busy(error):
                    raise
                wait.check(self.path, writer)

    def _start_threads(self, spawn: Spawn) -> None:
        watch = None if self._sharing is None else self._sharing.watch
        self.writer = writer = Threaded(self._session, spawn, "onward-writer", watch)
        if self.path is not None:
            self.hints.on_first_subscription = writer.start_watching
            self.readers = [
                Threaded(self._read_session, spawn, f"onward-reader-{n}") for n in range(READERS)
            ]

    def _session(self) -> Session:
        connection = self._connections.pop()
        return Session(connection, self.statements, self.where, self.time, sharing=self._sharing)

    def _read_session(self) -> Session:
        if self._sharing is not None:
            self._sharing.presence.check()  # or it would connect to another file
        try:
            connection = connect(self.path, writes=False)
        except sqlite3.Error as error:
            raise translate_error(error, self.where) or error from error
        return Session(
            connection,
            self.statements,
            self.where,
            self.time,
            sharing=self._sharing,
            writes=False,
        )


def _migrated(path: Path | None, where: str) -> sqlite3.Connection:
    connection = connect(path)
    try:
        migrate(connection, where)
    except BaseException:
        connection.close()
        raise
    return connection


# --- the files that this process has open ---------------------------------------------------------

_files: dict[str, File] = {}
_openings: dict[str, threading.Lock] = {}
_files_lock = threading.Lock()


def share(path: Path, make: Callable[[], File]) -> File:
    """Return the file at a path, which is opened if this process does not have it open yet.

    Raises:
        StoreUnusable: it was open when this process was forked. SQLite keeps the locks of a file by
            process; a child does not have its parent's, though the library in it believes so.
    """
    real = os.path.realpath(path)
    with _files_lock:
        opening = _openings.setdefault(real, threading.Lock())
    with opening:  # opening may wait for a lock, and other files must not wait for that
        with _files_lock:
            if (file := _files.get(real)) is not None:
                if file.pid != os.getpid():
                    raise forked(file.pid, str(path))
                file.users += 1
                return file
        file = make()
        file.users = 1
        with _files_lock:
            _files[real] = file
        return file


def share_again(file: File) -> File:
    """Take another share of a file that is open."""
    with _files_lock:
        file.users += 1
    return file


def release(file: File) -> bool:
    """Release a share of a file; return whether it was the last, so that it is to be closed."""
    with _files_lock:
        file.users -= 1
        if file.users:
            return False
        for real in [real for real, shared in _files.items() if shared is file]:
            del _files[real]
        return True


def _renew_locks() -> None:
    """Replace the locks in a forked child: threads that it does not have may hold them."""
    global _files_lock
    _files_lock = threading.Lock()
    _openings.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
