"""A process that only works or serves: its signals and its garbage collector."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onward.system.clock import spawn_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXIT_STUCK = 70
"""The exit status of a worker process whose event loop was blocked for too long."""

_OFTEN = (100_000, 50, 100)

SIGNALS = (signal.SIGTERM, signal.SIGINT)

_PATIENCE = 1.0
"""Seconds for which the event loop may be blocked when a second signal comes."""


def tune_collector() -> None:
    """Let the garbage collector run less often, and never look at objects that stay.

    Runs are many small objects that refer to one another. A busy worker would spend a third of its
    time collecting garbage among them and among all loaded code. Only a process
    that is a worker or a server and nothing else should be tuned like this.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OFTEN)


@contextmanager
def stopped_by_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` with the name of the first signal; the second ends the event loop.

    The second raises `SystemExit` between two callbacks of the loop: raised in the midst of one, it
    could leave a connection or a lock in a state that nothing leaves again. Only a loop that is
    blocked for `_PATIENCE` is ended wherever it is. A worker then returns its runs. The third
    signal ends the process in any case.
    """
    loop = asyncio.get_running_loop()
    ended, blocked = threading.Event(), threading.Event()
    count = 0

    def on_signal(number: int, _frame: object) -> None:
        nonlocal count
        if blocked.is_set():
            blocked.clear()
            raise SystemExit(128 + number)
        count += 1
        if count == 1:
            loop.call_soon_threadsafe(stop, signal.Signals(number).name)
        elif count == 2:
            loop.call_soon_threadsafe(end, number)
            spawn_thread(lambda: force(number), name="onward-second-signal")
        else:
            os._exit(128 + number)

    def end(number: int) -> None:
        ended.set()
        raise SystemExit(128 + number)

    def force(number: int) -> None:
        if not ended.wait(_PATIENCE):
            blocked.set()
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # it was not set by Python code
                signal.signal(number, handler)
