"""A row of the ledger: its states, what its author stated, and when a send can still arrive."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.lease import LEASE
from onward.core.retry import STEPS, Retry
from onward.core.value import Value, changed

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant

START_WITHIN: Duration = 15 * SECOND

MAX_WRITE_ALLOWANCE: Duration = 2 * LEASE
"""How much longer a window is at most because writes are slow: slower ones cost the lease too."""


class EffectState(StrEnum):
    """How an effect stands in the ledger; the values are the words in the database."""

    PLANNED = "planned"
    IN_FLIGHT = "in_flight"
    APPLIED = "applied"
    FAILED = "failed"
    NEEDS_RECONCILE = "needs_reconcile"
    INDETERMINATE = "indeterminate"
    SKIPPED = "skipped"
    WITHDRAWN = "withdrawn"


UNCERTAIN = frozenset(
    {EffectState.IN_FLIGHT, EffectState.NEEDS_RECONCILE, EffectState.INDETERMINATE}
)
FINAL = frozenset({EffectState.APPLIED, EffectState.SKIPPED})


class LedgerEntry(Value):
    """A row of the ledger, as far as its machine decides on it.

    `attempt` counts the sends of the run that holds the row, `asks` the answers of the reconciler
    since the last send, without those that came too early to count: so it is 0 if the handler
    settled the effect. `due` is when it is sent or asked again: a failed effect without it has
    settled. `known_until` is until when the receiver knows the key, if it keeps keys at all: so
    long after the very first send. `in_doubt` says of what is in flight that a send before it may
    have happened. The table has no column for it: a process that finds a row in flight knows that
    its sender is gone.
    """

    state: EffectState = EffectState.PLANNED
    version: int = 0
    attempt: int = 0
    asks: int = 0
    approved: bool = True
    start_by: Instant | None = None
    settle_until: Instant | None = None
    known_until: Instant | None = None
    due: Instant | None = None
    in_doubt: bool = False


class Terms(Value):
    """What the author of an effect stated about it.

    `idempotency_window` is how long its receiver knows a key, under which it applies nothing twice.
    """

    timeout: Duration
    settle: Duration = 10 * SECOND
    reconciles: bool = False
    retry: Retry = STEPS
    start_within: Duration = START_WITHIN
    idempotency_window: Duration | None = None

    @property
    def reach(self) -> Duration:
        """How long after its intent a send can still arrive."""
        return self.start_within + self.timeout + self.settle


def settled(effect: LedgerEntry) -> bool:
    """Return whether the outcome is known and nothing more will be sent for this run."""
    if effect.state is EffectState.FAILED:
        return effect.due is None
    return effect.state in FINAL or effect.state is EffectState.WITHDRAWN


class Window(Value):
    """When a send may begin, may still go out, and can no longer arrive.

    The ledger keeps it in the database's time, from the commit of the intent. The sender keeps its
    own, from a clock that counts suspended time, read before that commit: so its ends come first.
    """

    start_by: Instant
    send_by: Instant
    settle_until: Instant


def window(terms: Terms, *, at: Instant) -> Window:
    """Return the window of a send whose intent is written at `at`, on whichever clock."""
    start_by = at + terms.start_within
    return Window(start_by, start_by + terms.timeout, at + terms.reach)


def widened(terms: Terms, allowance: Duration) -> Terms:
    """Return terms with a longer window, for a worker whose writes are slow.

    The sender counts its window from before it writes the intent. If that takes longer than
    `start_within`, each window is over before it can be used.
    """
    allowance = min(max(0, allowance), MAX_WRITE_ALLOWANCE)
    return changed(terms, start_within=terms.start_within + allowance)
