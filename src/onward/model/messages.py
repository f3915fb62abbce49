"""Messages as they are sent and as the inbox of a run holds them."""

from __future__ import annotations

from typing import NamedTuple

from onward.core.inbox import MessageKind, wakes, wakes_unstarted
from onward.core.instant import Instant


class NewMessage(NamedTuple):
    """Something for the inbox of a run; `message` is its id, unique in that inbox.

    `target` is the id of a run, which stands for its newest run, or if there is none a uid. With
    `by_uid`, and in a commit, it is always a uid. `wakes` holds the reasons for which a paused run
    is woken, each between commas (`,approval,operator,`).
    """

    target: str
    message: str
    kind: str
    name: str = ""
    payload: bytes | None = None
    wakes: str = ""
    by_uid: int = 0


class InboxRow(NamedTuple):
    """A message as the owner of a run reads it; a large one may come without its payload."""

    run: str
    seq: int
    message: str
    kind: str
    name: str
    payload: bytes | None
    sent_at: Instant
    is_omitted: int = 0


class SentMessage(NamedTuple):
    """The answer to a message: its number in the inbox, or why it has none."""

    uid: str | None
    seq: int | None
    queue: str
    fate: str  # delivered, duplicate, ended, absent


UNSTARTED = ",unstarted,"
"""Stands among the reasons where a run that was never claimed is woken too."""


def wakes_for(kind: MessageKind) -> str:
    """Return the reasons for which a paused run is woken by such a message, as one text."""
    reasons = "".join(f",{reason}," for reason in sorted(wakes(kind)))
    return reasons + UNSTARTED if wakes_unstarted(kind) else reasons
