"""Why a handler failed, by the type of what it raised: never by the text of a message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onward.codec import register_error
from onward.core.instant import duration
from onward.core.run import Reason
from onward.errors import (
    InvariantBroken,
    NeedsApproval,
    OnwardError,
    Precondition,
    Retryable,
    TimedOut,
    TopicFull,
    Unavailable,
    UnreadableRow,
)

if TYPE_CHECKING:
    from onward.core.instant import Duration

PAUSED_BY: dict[type[BaseException], Reason] = {
    NeedsApproval: Reason.APPROVAL,
    Precondition: Reason.PRECONDITION,
}
_TRANSIENT = (Retryable, TimedOut, TopicFull, Unavailable)
_INTERNAL = (InvariantBroken, UnreadableRow)


@dataclass(eq=False, repr=False)
class HandlerFailed(OnwardError):
    """A phase of a handler failed; its cause is what the phase raised.

    It is stored instead of the cause, so that the reason stays known wherever the run continues.
    """

    code: ClassVar[str] = "handler_failed"
    reason: str
    after: int | None = None

    def __str__(self) -> str:
        return f"the handler failed ({self.reason})"


class ReservationLost(Exception):
    """An event that a preparation wanted to reserve was skipped or taken meanwhile."""


def reason_of(error: BaseException) -> Reason:
    """Return why a run of a handler ends that raised an error, or pauses."""
    for kind, reason in PAUSED_BY.items():
        if isinstance(error, kind):
            return reason
    if isinstance(error, _TRANSIENT):
        return Reason.TRANSIENT
    return Reason.INTERNAL if isinstance(error, _INTERNAL) else Reason.LOGIC


def failed(error: BaseException) -> HandlerFailed:
    """Return what is stored of a phase that failed."""
    wrapped = HandlerFailed(reason_of(error), _after(error))
    wrapped.__cause__ = error
    return wrapped


def _after(error: BaseException) -> Duration | None:
    """Return how long to wait as the code has asked, if that makes sense."""
    after: Any = getattr(error, "after", None) if isinstance(error, Retryable) else None
    return None if after is None else duration(after)


register_error(
    HandlerFailed,
    name="onward.HandlerFailed",
    to_data=lambda error: [str(error.reason), error.after],
    from_data=lambda data: HandlerFailed(*data),
)
register_error(
    ReservationLost,
    name="onward.ReservationLost",
    to_data=str,
    from_data=ReservationLost,
)
