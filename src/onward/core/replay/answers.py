"""What a body asks of its history, and what the replay machine answers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.replay.record import Record, RecordKind


class Ask(Value):
    """A durable call that the body makes. `compare=False` waives the comparison of arguments."""

    branch: str
    kind: RecordKind
    name: str
    key: str | None = None
    args_hash: str | None = None
    compare: bool = True


# --- to an ask ------------------------------------------------------------------------------------


class Read(Value):
    """It is in history and closed; it will be delivered in its turn."""

    identity: str


class Resume(Value):
    """It is in history and goes on: an open wait, a sent effect, an attempt to be repeated.

    Before the frontier nothing may be done about it; there it is released once more.
    """

    record: Record


class HeldBack(Value):
    """It is not in history, and replay is not at its frontier: it must wait until it is."""

    identity: str


class Fresh(Value):
    """It is not in history: do it."""

    identity: str


class Joined(Value):
    """The same key was asked before: it is the same call.

    `record` is there if it was delivered already; otherwise it ends with the first ask.
    """

    identity: str
    record: Record | None


class Clash(Value):
    """The same key was asked before with something else: an error of the body."""

    identity: str
    first: Ask
    asked: Ask


class Difference(StrEnum):
    """In what code and history differ."""

    KIND = "kind"
    NAME = "name"
    ARGUMENTS = "arguments"
    ORDER = "order"
    UNREAD = "unread"


class Diverged(Value):
    """Code and history do not fit: park the run, nothing was written.

    `asked` is None where the code did not ask for what is recorded at all.
    """

    difference: Difference
    recorded: Record
    asked: Ask | None = None

    def __str__(self) -> str:
        was = f"{self.recorded.kind} {self.recorded.name!r} ({self.recorded.identity})"
        asks = f"{self.asked.kind} {self.asked.name!r}" if self.asked else "something else"
        match self.difference:
            case Difference.ARGUMENTS:
                return f"the history has {was} with different arguments than the code passes now"
            case Difference.UNREAD if self.asked is None:
                return f"the history has {was}, but the code ended without making this call"
            case Difference.UNREAD:
                return f"the history has {was}, but the code now has {asks} instead"
            case _:
                return f"the history has {was} where the code now has {asks}"


Answer: TypeAlias = Read | Resume | HeldBack | Fresh | Joined | Clash | Diverged


class Patched(Value):
    """Whether the code behind a patch takes the new way.

    `identity` is set the first time it does, and must be recorded before anything later.
    """

    new: bool
    identity: str | None = None


# --- to a quiet body ------------------------------------------------------------------------------


class Deliver(Value):
    """Hand this record over, let the body run until it is quiet, then ask for the next turn."""

    record: Record


class Passed(Value):
    """The code did not ask for this record in its turn; it stays readable. Report it."""

    record: Record


class Frontier(Value):
    """History is read: what was held may be done now, in the order asked."""

    released: tuple[Fresh | Resume, ...]


class Wait(Value):
    """There is nothing to hand over before something new is recorded."""


Turn: TypeAlias = Deliver | Passed | Frontier | Wait | Diverged


# --- to the end of a body -------------------------------------------------------------------------


class Ended(Value):
    """The run may end.

    `unread` is what history has and the code did not ask for, `unheard` the wish that the run stops
    if its body ended before it could receive that.
    """

    unread: tuple[Record, ...]
    unheard: Record | None = None
