"""The messages of a run that ends: to its parent, and to the children that are cancelled with it.

The end of a child travels in the payload of a message: state and reason as words, a line each, then
the bytes of its result or error, which are not decoded here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onward.core.inbox import MessageKind
from onward.core.run import Reason
from onward.model.messages import NewMessage, wakes_for

CANCEL = "cancel"
"""The id of the message that cancels a run: it is delivered once."""

DEADLINE = "deadline"
"""The id of the message that a run's deadline has passed."""


class ChildEnd(NamedTuple):
    """How a child ended: `data` is its result, or its error, or nothing."""

    state: str
    reason: str | None
    data: bytes


def child_end(state: str, reason: str | None, result: bytes | None, error: bytes | None) -> bytes:
    """Return the end of a run as the payload of the message to its parent."""
    return b"\n".join((state.encode(), (reason or "").encode(), result or error or b""))


def read_child_end(payload: bytes) -> ChildEnd:
    """Return the end of a run from the payload of the message to its parent."""
    state, reason, data = payload.split(b"\n", 2)
    return ChildEnd(state.decode(), reason.decode() or None, data)


def to_parent(parent: str, identity: str, end: bytes) -> NewMessage:
    """Return the message to the parent of a run: the call that waits for it, and how it ended."""
    kind = MessageKind.CHILD
    return NewMessage(parent, f"child {identity}", kind, identity, end, wakes_for(kind), by_uid=1)


def to_children(children: Iterable[str]) -> list[NewMessage]:
    """Return the messages that cancel the children of a run that ends."""
    kind, why = MessageKind.CANCEL, Reason.PARENT
    return [NewMessage(child, CANCEL, kind, why, None, wakes_for(kind), 1) for child in children]


def to_overdue(run: str) -> NewMessage:
    """Return the message to a run whose deadline has passed."""
    kind, why = MessageKind.CANCEL, Reason.DEADLINE
    return NewMessage(run, DEADLINE, kind, why, None, wakes_for(kind), by_uid=1)
