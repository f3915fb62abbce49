"""Reading the histories and inboxes of many runs, of which some may be damaged."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from onward.errors import LeaseLost, NotOpen, StoreUnusable, Unavailable
from onward.model.workers import LoadedRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from onward.model.records import RecordRow
    from onward.store.store import Store

T = TypeVar("T")

INBOX_BYTES = 4 * 1024 * 1024
"""How many bytes of signals and of results of children are read at a time."""


async def load(
    store: Store, histories: Collection[str], inboxes: Mapping[str, int | None]
) -> dict[str, LoadedRun]:
    """Read histories and inboxes of runs; one that cannot be read hides no other.

    Args:
        store: Where they are.
        histories: The runs whose history is wanted.
        inboxes: The runs whose inbox is wanted, with the last number that each has seen. None: the
            last that its history has taken.
    """
    found, lost = await read_each(store.history, list(histories))
    after = {
        run: last_taken(found.get(run, ())) if seen is None else seen
        for run, seen in inboxes.items()
    }
    look = partial(store.look, after=after, budget=INBOX_BYTES)
    received, unread = await read_each(look, list(inboxes))
    return {
        run: LoadedRun(found.get(run, ()), received.get(run, ()), lost.get(run) or unread.get(run))
        for run in {**dict.fromkeys(histories), **inboxes}
    }


def last_taken(history: Sequence[RecordRow]) -> int:
    """Return up to which number all messages of a run are part of its history."""
    taken = {row.message for row in history}
    last = 0
    while last + 1 in taken:
        last += 1
    return last


async def read_each(
    read: Callable[[list[str]], Awaitable[Mapping[str, T]]], runs: list[str]
) -> tuple[dict[str, T], dict[str, Exception]]:
    """Read something of many runs at once, or if that fails, of each by itself.

    Returns:
        What was read, and the error of each run that could not be read.
    """
    if not runs:
        return {}, {}
    try:
        return dict(await read(runs)), {}
    except (LeaseLost, NotOpen, StoreUnusable, Unavailable):
        raise
    except Exception as error:  # noqa: BLE001 - it is about one of them
        if len(runs) == 1:
            return {}, {runs[0]: error}
    found: dict[str, T] = {}
    failed: dict[str, Exception] = {}
    for run in runs:
        one, wrong = await read_each(read, [run])
        found |= one
        failed |= wrong
    return found, failed
