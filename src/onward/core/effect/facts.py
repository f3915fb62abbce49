"""What can happen to an effect."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Duration


class Answer(StrEnum):
    """What a reconciler says."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What an operator says of an uncertain effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not_applied"
    SKIP = "skip"
    ASK_AGAIN = "ask_again"


class Approved(Value):
    """An operator lets a planned effect go.

    `is_dropped`: its run was cancelled after it was planned, or is over, and sends it no more.
    """

    is_dropped: bool = False


class ApprovalRejected(Value):
    """An operator forbids a planned effect."""


class Sent(Value):
    """The run is about to make the call; the intent is committed first."""


class HandlerReturned(Value):
    """The call returned."""


class RaisedNotApplied(Value):
    """The call itself says that it changed nothing, and perhaps when to come again.

    `names` are the type of the error and its bases, for a policy that goes by them, and `elapsed`
    is the time since the first send.
    """

    after: Duration | None = None
    randomness: float = 0.0
    names: tuple[str, ...] = ()
    elapsed: Duration = 0


class NotStarted(Value):
    """The call never began: no thread was free in time, or the machine was suspended."""


class Lost(Value):
    """The call timed out, raised anything else, or its worker vanished.

    `elapsed` is the time since the first send.
    """

    randomness: float = 0.0
    elapsed: Duration = 0


class GivenUp(Value):
    """The run can neither ask about it nor send it again: only an operator can tell."""


class Reconciled(Value):
    """The reconciler answered; raising counts as `unknown`."""

    answer: Answer
    randomness: float = 0.0


class Judged(Value):
    """An operator's verdict; `version` is that of the row which the operator saw.

    `is_dropped`: its run was cancelled after it was sent, or is over: it neither sends it again
    nor asks about it.
    """

    verdict: Verdict
    version: int | None = None
    is_dropped: bool = False


class Withdrawn(Value):
    """The run was cancelled, or is over, before the call was made, or made again."""


class Inherited(Value):
    """A retry of the run takes the row over; `is_changed`: with other arguments than approved."""

    is_changed: bool = False


Fact: TypeAlias = (
    Approved
    | ApprovalRejected
    | Sent
    | HandlerReturned
    | RaisedNotApplied
    | NotStarted
    | Lost
    | GivenUp
    | Reconciled
    | Judged
    | Withdrawn
    | Inherited
)
