"""What holds a run back: itself, or runs that it works for, each by its uid.

A pause holds the run that it names and every open run that would be cancelled with it. A run is
held as long as one source is left, so two pauses end with two resumes. Its row lists the sources
in one text; an owner learns of later changes by messages that are named after their source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind

if TYPE_CHECKING:
    from collections.abc import Iterable

CHANGES = frozenset({MessageKind.PAUSE, MessageKind.RESUME})
"""The messages that change what holds a run."""


def read_sources(held_by: str) -> tuple[str, ...]:
    """Return the uids of the runs that hold a run, in the order in which they were paused."""
    return tuple(held_by.split())


def sources_after(
    sources: Iterable[str], changes: Iterable[tuple[MessageKind, str]]
) -> tuple[str, ...]:
    """Return what holds a run after messages, each a kind and the source that it is named after.

    A source counts once, however often it pauses, and its last message decides.
    """
    left = dict.fromkeys(sources)
    for kind, source in changes:
        left.pop(source, None)
        if kind is MessageKind.PAUSE:
            left[source] = None
    return tuple(left)
