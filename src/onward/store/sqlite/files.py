"""The files of a SQLite database: whether a folder is fit for them, and whether they exist."""

from __future__ import annotations

import os
from pathlib import Path

from onward.errors import StoreUnusable

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
            "is in a folder that does not exist or cannot be entered",
            f"Create the folder: mkdir -p {folder}",
        )
    if path.is_dir():
        raise StoreUnusable(str(path), "is a folder, not a file", "Give the name of a file in it")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise StoreUnusable(
            str(path),
            "cannot be written by this user",
            "SQLite also creates files beside it: make the file and its folder writable, or choose "
            "another path",
        )
    kind = file_system(path, mounts)
    if kind is not None and kind.startswith(_NETWORK):
        raise StoreUnusable(
            str(path),
            f"is on a network file system ({kind}), where SQLite's locks cannot be trusted",
            "Use a local disk, or Postgres",
        )


def file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of file system that holds `path`, or `None` where it is unknown."""
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


class Presence:
    """Checks whether the files that a process has open are still the ones at their paths.

    A file that was deleted or replaced stays open and takes commits, which the next process to open
    the path will not find. The newest commits are in `-wal`, so that one counts as well.
    """

    def __init__(self, database: Path) -> None:
        self._path = database
        self._paths = (str(database), f"{database}-wal")
        self._opened = self._found()

    def check(self) -> None:
        """Refuse to acknowledge what was written to a file that is gone.

        Raises:
            StoreUnusable: it was deleted or replaced.
        """
        if self._found() != self._opened:
            raise StoreUnusable(
                str(self._path),
                "or its -wal file was deleted or replaced while this process had it open, so new "
                "writes would be lost",
                "Stop every process that uses it, restore the right files and start again",
            )

    def _found(self) -> list[tuple[int, int] | None]:
        return [_identity(path) for path in self._paths]


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
