"""What a fork does to an open store: nothing of it works in the child, so it says so at once."""

from __future__ import annotations

import os

from onward.errors import StoreUnusable


def check_process(opened_by: int, where: str) -> None:
    """Refuse what another process has opened.

    Its threads and connections are not here. A call would wait for ever, or damage the parent's.

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
        "Fork before you open it, or start processes by multiprocessing's 'spawn' or 'forkserver' "
        "method and open an App there",
    )
