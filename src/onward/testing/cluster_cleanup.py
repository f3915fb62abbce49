"""A small process that outlives a test run only to clean up after it.

It waits until the other end of its standard input is closed, which happens when the test run
stops it and also when the test run is killed. Then it stops the Postgres in its folder and removes
the folder. It runs as a bare script, so it must import nothing but the standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.01


def clean_up(folder: Path) -> None:
    """Stop the Postgres whose data is in `folder / "data"`, if it runs, and remove the folder."""
    pid = _noted_process(folder)
    for number in (signal.SIGQUIT, signal.SIGKILL):
        patience = time.monotonic() + _PATIENCE_SECONDS
        if pid is not None and _serves(pid, folder):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            while _serves(pid, folder) and time.monotonic() < patience:
                time.sleep(_POLL_SECONDS)
    _remove(folder)


def _noted_process(folder: Path) -> int | None:
    try:
        return int((folder / "data" / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _serves(pid: int, folder: Path) -> bool:
    # The note outlives a server that was killed, and its number may belong to another process now.
    return os.fsencode(folder) in _command_line(pid)


def _command_line(pid: int) -> bytes:
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""
    asked = ["ps", "-o", "command=", "-p", str(pid)]
    return subprocess.run(asked, stdout=subprocess.PIPE, check=False).stdout  # noqa: S603


def _remove(folder: Path) -> None:
    # A process that is on its way out may still write, so one pass may not be enough.
    patience = time.monotonic() + _PATIENCE_SECONDS
    while folder.exists() and time.monotonic() < patience:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clean_up(Path(sys.argv[1]))
