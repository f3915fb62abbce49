"""Finding code that blocks a worker's event loop.

While code in a body, or in an async step, blocks (`time.sleep`, an HTTP library that is not async)
its worker does nothing else. The event loop itself would notice only afterwards, and not where it
was, so a thread looks several times a second. It asks the loop to call it back, which a blocked
loop does not do.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import SECOND
from onward.runtime.worker.loop_frame import line_of, scope_of

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from onward.core.instant import Duration
    from onward.core.ports import Clock, Spawn, Spawned
    from onward.runtime.execution.loop_monitor import LoopMonitor
    from onward.telemetry.observer import Observer
    from onward.telemetry.scope import Scope

LOOK_SECONDS = 0.1

LOOKS = 3
"""How many looks in a row must see the same code running. Two might see code that does not block:
one before this process was suspended, and one before the event loop continued."""

MAX_LOOK: Duration = SECOND
"""How much time counts between two looks: if more has passed, the process stood still itself."""

STUCK: Duration = SECOND
"""Code that runs for this long is reported before it ends, which may never happen."""

_STOP_SECONDS = 1.0


class Stall(NamedTuple):
    """For how long an event loop has been blocked, and by what; no scope: not by a run."""

    length: Duration = 0
    scope: Scope | None = None
    where: str = ""


RUNS = Stall()
"""The event loop runs."""


class _Turn(NamedTuple):
    """What the event loop is running; the same key means that it has not stopped in between."""

    key: tuple[str, int, int] = ("", 0, 0)
    scope: Scope | None = None
    is_replaying: bool = False


class BlockedLoopWatch:
    """Reports code of runs that blocks the event loop on which it is started."""

    def __init__(
        self,
        monitor: LoopMonitor,
        clock: Clock,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._monitor = monitor
        self._clock = clock
        self._observer = observer
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._stop = threading.Event()
        self._thread: Spawned | None = None
        self.stall = RUNS
        """Read by other threads."""
        self._asked = self._answered = 0
        self._looked = clock.monotonic()
        self._silent: Duration = 0
        self._turn = _Turn()
        self._seen = 0
        self._since = self._length = 0
        self._where = ""

    def start(self, spawn: Spawn, name: str) -> None:
        """Start the thread."""
        self._thread = spawn(self._work, name=name)

    def stop(self) -> None:
        """Stop the thread; it reports first what has just blocked the loop."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    def _work(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            self.look()
        self.look()

    def look(self) -> None:
        """See what is running, and report what blocks."""
        self._ask_loop()
        frame = self._frame()
        turn = self._turn_now(frame)
        self._note_stall(turn, frame)
        if turn.key != self._turn.key or turn.scope is None or turn.is_replaying:
            self._report()
            self._turn, self._seen = turn, 1
            self._since = self._looked
            return
        where = line_of(frame)
        if turn.key != self._turn_now(self._frame()).key:
            return  # it has just ended, and this is a line of something else
        self._seen += 1
        self._where = where
        self._length = self._looked - self._since
        if self._length >= STUCK:
            self._report()

    def _ask_loop(self) -> None:
        """Measure for how long the loop has not called back, and ask it again if it has."""
        now = self._clock.monotonic()
        passed, self._looked = min(now - self._looked, MAX_LOOK), now
        if self._answered != self._asked:
            self._silent += passed
            return
        self._silent = 0
        self._asked += 1
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # it is closed
            self._stop.set()

    def _answer(self) -> None:
        self._answered = self._asked

    def _frame(self) -> FrameType | None:
        return sys._current_frames().get(self._loop_thread)

    def _turn_now(self, frame: FrameType | None) -> _Turn:
        number, running = self._monitor.number, self._monitor.running
        if running is not None:
            try:
                return _Turn(("body", number, 0), running.scope, running.is_replaying)
            except AttributeError:  # it has ended meanwhile, and is freed
                return _Turn()
        if not self._silent:
            return _Turn()
        # Between two answers of the loop a task has one turn.
        scope = scope_of(self._loop, frame)
        return _Turn(("task", self._asked, id(scope)), scope)

    def _note_stall(self, turn: _Turn, frame: FrameType | None) -> None:
        self.stall = Stall(self._silent, turn.scope, line_of(frame)) if self._silent else RUNS

    def _report(self) -> None:
        """Report the code that was seen last, once."""
        scope = self._turn.scope
        if scope is not None and self._seen >= LOOKS:
            self._observer.run_blocking(scope, self._length, self._where)
            self._turn = self._turn._replace(scope=None)
            self._seen = 0
