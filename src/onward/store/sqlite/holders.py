"""Which process holds a lock on a file, where the system tells it: Linux, in `/proc/locks`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC_LOCKS = Path("/proc/locks")

WAL_WRITE_BYTE = 120
"""The byte of the `-shm` file that SQLite locks while a connection writes."""


def flock_holder(path: Path, locks: Path = PROC_LOCKS) -> int | None:
    """Return the process that holds a `flock` on a file."""
    return next((pid for kind, pid, _, _ in _held(path, locks) if kind == "FLOCK"), None)


def writer(database: Path, locks: Path = PROC_LOCKS) -> int | None:
    """Return the process that has a SQLite database locked for writing."""
    held = _held(Path(f"{database}-shm"), locks)
    return next(
        (
            pid
            for kind, pid, first, last in held
            if kind == "POSIX" and first <= WAL_WRITE_BYTE <= last
        ),
        None,
    )


def _held(path: Path, locks: Path) -> Iterator[tuple[str, int, int, float]]:
    """Yield (kind, pid, first byte, last byte) of the exclusive locks on a file."""
    try:
        inode = os.stat(path).st_ino
        lines = locks.read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        # 1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF; one that waits has "->" after the number
        fields = line.split()
        if len(fields) != 8 or fields[3] != "WRITE" or fields[5].rpartition(":")[2] != str(inode):
            continue
        pid = int(fields[4])
        if pid > 0:  # a process that is not visible here is 0 or -1
            last = float("inf") if fields[7] == "EOF" else int(fields[7])
            yield fields[1], pid, int(fields[6]), last
