"""An open store cannot be used in a forked child process."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from onward.errors import StoreUnusable
from onward.system.clock import spawn_thread

if TYPE_CHECKING:
    from collections.abc import Callable

_LAST_WORDS_SECONDS = 2.0


def check_process(opened_by: int, where: str) -> None:
    """Refuse what another process has opened.

    Its threads and connections do not exist here. A call would never return, or damage those of
    the parent.

    Raises:
        StoreUnusable: this process was forked from the one that opened it.
    """
    if opened_by != os.getpid():
        raise forked(opened_by, where)


def forked(opened_by: int, where: str) -> StoreUnusable:
    """Return the error for a store that was open when this process was forked."""
    return StoreUnusable(
        where,
        f"was opened by process {opened_by}, and this process ({os.getpid()}) is a fork of it",
        "Open an App in the new process: fork before you open one, or use the 'spawn' or "
        "'forkserver' method of multiprocessing",
    )


def exit_now(status: int, last_words: Callable[[], None]) -> NoReturn:
    """End this process although its main thread is blocked, after its logs are written.

    The thread that is blocked may hold a lock of logging, so no more than a while is waited.
    """

    def end() -> None:
        last_words()
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()

    spawn_thread(end, name="onward-exit").join(_LAST_WORDS_SECONDS)
    os._exit(status)
