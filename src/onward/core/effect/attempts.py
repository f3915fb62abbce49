"""The attempts of an effect: its sends and the calls of its reconciler, for operators.

Nothing is decided by them. The machine counts what it needs itself, anew for each run and send;
these go on over all runs that have had the row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from onward.core.effect.facts import (
    Answer,
    HandlerReturned,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
)
from onward.core.effect.ledger import EffectState

if TYPE_CHECKING:
    from onward.core.effect.facts import Fact
    from onward.core.effect.ledger import LedgerEntry
    from onward.core.instant import Instant

MAX_ATTEMPTS = 50
"""How many attempts are kept; their numbers tell how many there were before."""


class AttemptKind(StrEnum):
    """What an attempt called."""

    SEND = "send"
    RECONCILE = "reconcile"


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    RETURNED = "returned"
    NOT_APPLIED = "not_applied"
    NOT_STARTED = "not_started"
    UNKNOWN = "unknown"
    APPLIED = "applied"
    TOO_EARLY = "too_early"


class AttemptEntry(NamedTuple):
    """One send of an effect, or one call of its reconciler.

    `number` counts the attempts of a kind. `error` is the type of what the code raised.
    """

    kind: str
    number: int
    began: Instant
    ended: Instant | None = None
    outcome: str | None = None
    error: str | None = None


Attempts = tuple[AttemptEntry, ...]


def add_send(attempts: Attempts, at: Instant) -> Attempts:
    """Return the attempts with a send that begins now."""
    return _added(attempts, AttemptKind.SEND, at)


def add_outcome(
    attempts: Attempts,
    fact: Fact,
    to: LedgerEntry,
    *,
    began: Instant,
    ended: Instant,
    error: str | None = None,
) -> Attempts:
    """Return the attempts after a fact, which led to `to`; it may say nothing about them."""
    outcome = _outcome(fact, to)
    if outcome is None:
        return attempts
    if isinstance(fact, Reconciled):
        attempts = _added(attempts, AttemptKind.RECONCILE, began)
    if not attempts or attempts[-1].outcome is not None:
        return attempts
    return (*attempts[:-1], attempts[-1]._replace(ended=ended, outcome=outcome, error=error))


def _added(attempts: Attempts, kind: AttemptKind, at: Instant) -> Attempts:
    last = max((each.number for each in attempts if each.kind == kind), default=0)
    if len(attempts) >= MAX_ATTEMPTS:
        attempts = _without_oldest(attempts)
    return (*attempts, AttemptEntry(kind, last + 1, at))


def _without_oldest(attempts: Attempts) -> Attempts:
    """Return the attempts without the oldest; the last of each kind stays, for its number."""
    first, *rest = attempts
    if any(each.kind == first.kind for each in rest):
        return tuple(rest)
    return (first, *rest[1:])


def _outcome(fact: Fact, to: LedgerEntry) -> AttemptOutcome | None:
    match fact:
        case HandlerReturned():
            return AttemptOutcome.RETURNED
        case RaisedNotApplied():
            return AttemptOutcome.NOT_APPLIED
        case NotStarted():
            return AttemptOutcome.NOT_STARTED
        case Lost():
            return AttemptOutcome.UNKNOWN
        case Reconciled(answer=Answer.NOT_APPLIED) if to.state is EffectState.NEEDS_RECONCILE:
            return AttemptOutcome.TOO_EARLY
        case Reconciled(answer=answer):
            return AttemptOutcome(answer)
    return None
