"""The files beside a SQLite database: is the place fit, who writes, which workers are alive.

Next to `onward.db` stands the folder `onward.db-onward` with lock files. They hold nothing; what
counts is the lock that the system keeps on them for as long as a process lives.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from onward.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":  # there SQLite's own locks and the lease's time have to do
    import fcntl

MOUNTS = Path("/proc/self/mounts")
_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gluster", "fuse.sshfs", "fuse.s3")


def check_place(path: Path, mounts: Path = MOUNTS) -> None:
    """Refuse a folder where a database cannot live.

    Raises:
        StoreUnusable: the folder is missing, cannot be written, or is on a network.
    """
    folder = path.parent
    if not os.path.isdir(folder):  # unlike the method, it takes no for an answer
        raise StoreUnusable(
            str(path),
            "lies in a folder that does not exist or cannot be entered",
            f"Create it: mkdir -p {folder}",
        )
    if path.is_dir():
        raise StoreUnusable(str(path), "is a folder, not a file", "Give the name of a file in it")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise StoreUnusable(
            str(path),
            "cannot be written by this user",
            "SQLite also writes beside its file: make file and folder writable, or choose another",
        )
    kind = file_system(path, mounts)
    if kind is not None and kind.startswith(_NETWORK):
        raise StoreUnusable(
            str(path),
            f"is on a network file system ({kind}), where SQLite's locks cannot be trusted",
            "Use a local disk, or Postgres",
        )


def file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of file system that holds `path`, or `None` where nobody can tell."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    best, kind = "", None
    real = os.path.realpath(path)
    for line in lines:
        fields = line.split(" ")
        mount = fields[1].replace("\\040", " ")
        inside = real == mount or real.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, fields[2]
    return kind


class Locks:
    """The lock files of one database."""

    def __init__(self, database: Path) -> None:
        self._folder = Path(f"{database}-onward")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._write = self._open("write")
        self._users = self._open("users")
        self._share()
        self._held: dict[str, int] = {}

    def close(self) -> None:
        """Let go of everything. A worker that did not give its lease up counts as dead now."""
        for descriptor in (self._write, self._users, *self._held.values()):
            os.close(descriptor)
        self._held.clear()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other processes from committing or checkpointing.

        SQLite before 3.51.3 can damage its file when one connection checkpoints while another
        commits. Waiting here is also fairer and quicker than SQLite's own sleeping retries.
        """
        if sys.platform == "win32":
            yield
            return
        fcntl.flock(self._write, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._write, fcntl.LOCK_UN)

    def alone(self) -> bool:
        """Say whether no other process has this database open."""
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
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def hold(self, worker: str) -> None:
        """Show that a worker lives, for as long as this process does."""
        if sys.platform == "win32" or worker in self._held:
            return
        # Nobody may see it before it is locked, or would take the worker for dead.
        unseen = f"new-{_file(worker)}"
        descriptor = self._open(unseen)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (self._folder / unseen).replace(self._folder / _file(worker))
        self._held[worker] = descriptor

    def let_go(self, worker: str) -> None:
        """Show that a worker has left."""
        descriptor = self._held.pop(worker, None)
        if descriptor is not None:
            (self._folder / _file(worker)).unlink(missing_ok=True)
            os.close(descriptor)

    def dead(self) -> list[str]:
        """Return the workers that left their file behind without holding it: their process died."""
        if sys.platform == "win32":
            return []
        return [
            unquote(entry.name.removeprefix("worker-"))
            for entry in self._folder.glob("worker-*")
            if not self._is_held(entry)
        ]

    def forget(self, worker: str) -> None:
        """Remove what a dead worker left behind."""
        (self._folder / _file(worker)).unlink(missing_ok=True)

    def _is_held(self, entry: Path) -> bool:
        if sys.platform == "win32":
            return True
        try:
            descriptor = os.open(entry, os.O_RDWR)
        except OSError:
            return True  # it went away just now, together with its worker
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o600)


def _file(worker: str) -> str:
    return f"worker-{quote(worker, safe='')}"
