"""What can happen to an effect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

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


@dataclass(frozen=True, slots=True)
class Approved:
    """An operator lets a planned effect go."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An operator forbids a planned effect."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The run is about to make the call; the intent is committed first."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The call returned."""


@dataclass(frozen=True, slots=True)
class RaisedNotApplied:
    """The call itself says that it changed nothing, and perhaps when to come again."""

    after: Duration | None = None
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """The call timed out, raised anything else, or its worker vanished."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The reconciler answered; raising counts as `unknown`."""

    answer: Answer
    chance: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """An operator's verdict; `version` is that of the row which the operator saw."""

    verdict: Verdict
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Inherited:
    """A retry of the run takes the row over."""


Fact: TypeAlias = (
    Approved
    | Rejected
    | Sent
    | Returned
    | RaisedNotApplied
    | Lost
    | Reconciled
    | Judged
    | Inherited
)
