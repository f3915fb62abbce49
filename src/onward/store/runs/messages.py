"""Whom a message wakes, in the words of the statements that deliver it."""

from __future__ import annotations

from onward.core.inbox import MessageKind, stirs, wakes_unstarted

UNSTARTED = ",unstarted,"
"""Stands among the reasons where a run that was never claimed is woken too."""


def stirring(kind: MessageKind) -> str:
    """Return the reasons for which a paused run is woken by such a message, as one text."""
    reasons = "".join(f",{reason}," for reason in sorted(stirs(kind)))
    return reasons + UNSTARTED if wakes_unstarted(kind) else reasons
