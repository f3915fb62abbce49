"""Bounded waits for the locks of a SQLite file: first a warning, finally an error."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from onward.core.instant import MINUTE, SECOND
from onward.errors import Unavailable
from onward.store.sqlite.holders import writer
from onward.system.clock import SystemClock
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from onward.core.instant import Duration

WARN_AFTER: Duration = 5 * SECOND
WARN_EVERY: Duration = MINUTE
WAIT_LIMIT: Duration = MINUTE

_OTHER = "Nothing was written. If that process is stopped or hangs, resume or end it"
_OWN = (
    "Nothing was written. A connection of this process has an open transaction on the file: "
    "commit the transaction before you open or call the app"
)

SHORT_LIMIT: Duration = 5 * SECOND
"""The limit after a failed wait, and on closing: queued work must not wait a minute each."""


class Patience:
    """How long the calls to one file wait for its locks."""

    def __init__(self) -> None:
        self.clock = SystemClock()  # locks are waited for in real time, whatever time a test makes
        self.limit = WAIT_LIMIT
        self._is_closing = False
        self._quiet_until: int | None = None

    def close(self) -> None:
        """Let waits end soon, from now on."""
        self._is_closing = True
        self.limit = min(self.limit, SHORT_LIMIT)

    def succeed(self) -> None:
        """Note that a lock was obtained."""
        self._quiet_until = None
        if not self._is_closing:
            self.limit = WAIT_LIMIT

    def may_warn(self) -> bool:
        """Return whether a long wait is to be reported: once a minute for all calls."""
        now = self.clock.monotonic()
        if self._quiet_until is not None and now < self._quiet_until:
            return False
        self._quiet_until = now + WARN_EVERY
        return True

    def fail(self) -> None:
        """Note that a wait has failed."""
        self.limit = min(self.limit, SHORT_LIMIT)


class LockWait:
    """One call's wait for a lock, or for several in a row."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._began = patience.clock.monotonic()
        self._warn_after = WARN_AFTER

    @property
    def waited(self) -> Duration:
        """How long it has taken so far."""
        return self._patience.clock.monotonic() - self._began

    def check(self, lock: Path, holder: Callable[[Path], int | None]) -> None:
        """Warn if the wait is long, and end it if it is too long.

        Args:
            lock: The file whose lock is waited for.
            holder: Finds the process that has it.

        Raises:
            Unavailable: the limit has passed; nothing was written.
        """
        waited = self.waited
        if waited >= self._warn_after and self._patience.may_warn():
            self._warn_after = waited + WARN_EVERY
            pid = holder(lock)
            emit(
                "store.locked",
                file=str(lock),
                holder_pid=pid,
                is_own_process=_is_own(pid),
                waited_seconds=waited // SECOND,
            )
        if waited >= self._patience.limit:
            self._patience.fail()
            pid = holder(lock)
            own = " (this process)" if _is_own(pid) else ""
            held = "another process" if pid is None else f"process {pid}"
            raise Unavailable(
                str(lock),
                f"is locked by {held}{own}, which did not release it within "
                f"{waited / SECOND:.0f} s",
                # A lock of Onward's own is not a transaction of the user's.
                _OWN if own and holder is writer else _OTHER,
            )


def _is_own(pid: int | None) -> bool:
    return pid == os.getpid()
