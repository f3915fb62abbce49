"""Finding bodies that block their worker.

While code in a body blocks (`time.sleep`, an HTTP library that is not async) its worker does
nothing else. The event loop itself would notice only afterwards, and not where it was, so a thread
looks several times a second.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.runtime.body import runloop

if TYPE_CHECKING:
    from types import FrameType

    from onward.core.instant import Duration
    from onward.core.ports import Clock, Spawn
    from onward.runtime.execution.loop_monitor import LoopMonitor
    from onward.telemetry.observer import Observer
    from onward.telemetry.scope import RunScope

LOOK_SECONDS = 0.1

LOOKS = 3
"""How many looks in a row must see one body running. Two might see a body that does not block: one
before this process was suspended, and one before the event loop continued."""

STUCK: Duration = SECOND
"""A body that runs for this long is reported before it ends, which may never happen."""

_LIBRARY = os.path.dirname(os.__file__)


class BlockedLoopWatch:
    """Reports bodies that block the event loop on which it is started."""

    def __init__(self, monitor: LoopMonitor, clock: Clock, observer: Observer) -> None:
        self._monitor = monitor
        self._clock = clock
        self._observer = observer
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._scope: RunScope | None = None
        self._number = self._seen = 0
        self._since = self._length = 0
        self._where = ""

    def start(self, spawn: Spawn, name: str) -> None:
        """Start the thread."""
        spawn(self._work, name=name)

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """See which body is running, and report one that blocks."""
        number, scope = self._monitor.number, self._monitor.scope
        if number != self._number or scope is None:
            self._report()
            self._scope, self._number, self._seen = scope, number, 1
            self._since = self._clock.monotonic()
            return
        where = line_of(sys._current_frames().get(self._loop_thread))
        if number != self._monitor.number or self._monitor.scope is None:
            return  # it has just ended, and this is a line of another body
        self._seen += 1
        self._where = where
        self._length = self._clock.monotonic() - self._since
        if self._length >= STUCK:
            self._report()

    def _report(self) -> None:
        """Report the body that was seen last, once."""
        if self._scope is not None and self._seen >= LOOKS:
            self._observer.run_blocking(self._scope, self._length, self._where)
            self._scope = None


def line_of(frame: FrameType | None) -> str:
    """Return the innermost line of a body's own code, or the outermost if a library calls it."""
    line = ""
    while frame is not None and frame.f_globals.get("__name__") != runloop.__name__:
        code = frame.f_code
        line = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if not _is_library(code.co_filename):
            break
        frame = frame.f_back
    return line


def _is_library(file: str) -> bool:
    return file.startswith((_LIBRARY, "<frozen")) or "site-packages" in file
