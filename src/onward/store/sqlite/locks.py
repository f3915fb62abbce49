"""Locks between the processes that use one SQLite file: for writing, and for live workers.

Next to `onward.db` is the folder `onward.db-onward` with lock files. They hold nothing; what counts
is the lock that the system keeps on them for as long as a process lives.

A `flock` belongs to the open file, which a forked child shares: a child that outlived its parent
would hold the parent's locks. So a child closes its copies first thing after the fork. (Locks of
`fcntl` are no way out: a process loses them as soon as it closes any descriptor of the file.) A
program that is started by `exec` inherits none, as Python opens files that way.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from onward.core.digest import digest
from onward.core.instant import SECOND
from onward.errors import StoreUnusable
from onward.store.sqlite.holders import flock_holder
from onward.store.sqlite.waiting import LockWait, Patience

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":  # there SQLite's own locks and the lease's time have to do
    import fcntl

_PAUSE_SHORTEST, _PAUSE_LONGEST = 0.0001, 0.01

_descriptors: set[int] = set()
_fork_lock = threading.RLock()


class Locks:
    """The lock files of one database."""

    def __init__(self, database: Path) -> None:
        self._folder = Path(f"{database}-onward")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(
                str(database),
                f"cannot be used: {self._folder} cannot be created ({error.strerror})",
                "Choose a folder in which this user may create files",
            ) from error
        self.patience = Patience()
        self._write = self._open("write")
        self._users = self._open("users")
        self._held: dict[tuple[str, str], int] = {}
        self._share()

    def close(self) -> None:
        """Release everything. A worker that still has its lease counts as dead now."""
        for descriptor in (self._write, self._users, *self._held.values()):
            _close(descriptor)
        self._held.clear()

    @contextmanager
    def writing(self, wait: LockWait | None = None) -> Iterator[None]:
        """Keep other processes from committing or checkpointing.

        SQLite before 3.51.3 can damage its file when one connection checkpoints while another
        commits. Waiting here is also fairer and quicker than SQLite's own retries.

        Raises:
            Unavailable: another process has held the lock for too long.
        """
        if sys.platform == "win32":
            yield
            return
        self._acquire(self._write, fcntl.LOCK_EX, "write", wait)
        try:
            yield
        finally:
            fcntl.flock(self._write, fcntl.LOCK_UN)

    def alone(self) -> bool:
        """Return whether no other process has this database open."""
        if sys.platform == "win32":
            return False
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            self._share()
        return True

    def _share(self) -> None:
        if sys.platform != "win32":
            self._acquire(self._users, fcntl.LOCK_SH, "users")

    def _acquire(self, descriptor: int, how: int, name: str, wait: LockWait | None = None) -> None:
        if sys.platform == "win32":
            return
        wait = wait or LockWait(self.patience)
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
                self.patience.succeed()
                return
            wait.check(self._folder / name, flock_holder)
            # Each pause adds a fiftieth to the wait, so that short waits stay short.
            pause = wait.waited / SECOND / 50
            time.sleep(min(max(pause, _PAUSE_SHORTEST), _PAUSE_LONGEST))

    # --- workers ---------------------------------------------------------------------------------

    def hold(self, namespace: str, worker: str) -> None:
        """Show other processes that a worker is alive, for as long as this process is."""
        if sys.platform == "win32" or (namespace, worker) in self._held:
            return
        # Other processes must not see it before it is locked: the worker would seem dead.
        unseen, seen = f"new-{_file(namespace, worker)}", _file(namespace, worker)
        descriptor = self._open(unseen)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (self._folder / unseen).replace(self._folder / seen)
        self._held[namespace, worker] = descriptor

    def let_go(self, namespace: str, worker: str) -> None:
        """Show that a worker has left."""
        descriptor = self._held.pop((namespace, worker), None)
        if descriptor is not None:
            self.forget(namespace, worker)
            _close(descriptor)

    def dead(self, namespace: str) -> list[str]:
        """Return the workers of a namespace whose process died: nothing holds their file."""
        if sys.platform == "win32":
            return []
        prefix = _file(namespace, "")
        return [
            unquote(entry.name.removeprefix(prefix))
            for entry in self._folder.glob(f"{prefix}*")
            if not self._is_held(entry)
        ]

    def forget(self, namespace: str, worker: str) -> None:
        """Remove the file of a worker."""
        (self._folder / _file(namespace, worker)).unlink(missing_ok=True)

    def _is_held(self, entry: Path) -> bool:
        if sys.platform == "win32":
            return True
        try:
            descriptor = _open(entry, os.O_RDWR)
        except OSError:
            return True  # it went away just now, together with its worker
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            _close(descriptor)
        return False

    def _open(self, name: str) -> int:
        return _open(self._folder / name, os.O_RDWR | os.O_CREAT)


def _file(namespace: str, worker: str) -> str:
    """Return the name of a worker's file; a namespace may be too long for one."""
    return f"worker-{digest(namespace)}-{quote(worker, safe='')}"


# --- descriptors, and what a fork does to them ----------------------------------------------------


def _open(path: Path, flags: int) -> int:
    with _fork_lock:
        descriptor = os.open(path, flags, 0o600)
        _descriptors.add(descriptor)
        return descriptor


def _close(descriptor: int) -> None:
    with _fork_lock:
        _descriptors.discard(descriptor)
        if sys.platform != "win32":
            fcntl.flock(
                descriptor, fcntl.LOCK_UN
            )  # an unknown copy of the descriptor would keep it
        os.close(descriptor)


def _close_in_child() -> None:
    for descriptor in _descriptors:
        with suppress(OSError):
            os.close(descriptor)
    _descriptors.clear()
    _fork_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_lock.acquire,
        after_in_parent=_fork_lock.release,
        after_in_child=_close_in_child,
    )
