"""An open store cannot be used in a forked child process."""

from __future__ import annotations

import os

from onward.errors import StoreUnusable


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
        f"was opened by process {opened_by}, from which this one ({os.getpid()}) was forked",
        "Open an App in the new process: fork before you open one, or use the 'spawn' or "
        "'forkserver' method of multiprocessing",
    )
