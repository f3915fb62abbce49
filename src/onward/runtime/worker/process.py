"""A process that is a worker and nothing else: its signals and its garbage collector."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXIT_STUCK = 70
"""The exit status of a worker process whose event loop was blocked for too long."""

_OFTEN = (100_000, 50, 100)

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def tune_collector() -> None:
    """Let the garbage collector run less often, and never look at objects that stay.

    Runs are many small objects that refer to one another. A busy worker would spend a third of its
    time collecting garbage among them and among all loaded code. Only a process
    that is a worker and nothing else should be tuned like this.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_OFTEN)


@contextmanager
def stopped_by_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` with the name of the first signal; the second ends the event loop.

    The second raises `SystemExit` wherever the process is, so that a blocked event loop is ended
    too; a worker then returns its runs. The third ends the process in any case.
    """
    loop = asyncio.get_running_loop()
    count = 0

    def on_signal(number: int, _frame: object) -> None:
        nonlocal count
        count += 1
        if count == 1:
            loop.call_soon_threadsafe(stop, signal.Signals(number).name)
        elif count == 2:
            raise SystemExit(128 + number)
        else:
            os._exit(128 + number)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # it was not set by Python code
                signal.signal(number, handler)
