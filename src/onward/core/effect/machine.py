"""The machine of effects: which fact settles one, and which leaves it uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.effect.facts import (
    Answer,
    ApprovalRejected,
    Approved,
    Fact,
    GivenUp,
    HandlerReturned,
    Inherited,
    Judged,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    Sent,
    Verdict,
    Withdrawn,
)
from onward.core.effect.ledger import (
    FINAL,
    UNCERTAIN,
    EffectState,
    LedgerEntry,
    Terms,
    settled,
    window,
)
from onward.core.instant import SECOND, instant_text
from onward.core.retry import RECONCILING, Again, AttemptFailure, decide, has_more
from onward.core.value import changed

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant


START_AGAIN: Duration = SECOND
"""How long after a send that never began the next one is tried."""


def planned(*, approve: bool = False) -> LedgerEntry:
    """Return an effect before its first send; with `approve` it waits for an operator."""
    return LedgerEntry(approved=not approve)


def advance(
    effect: LedgerEntry, fact: Fact, terms: Terms, *, now: Instant
) -> Decision[LedgerEntry]:
    """Return the ledger row after `fact`, with its version raised if it moved."""
    match _decided(effect, fact, terms, now):
        case Moved(to):
            return Moved(changed(to, version=effect.version + 1))
        case other:
            return other


def _decided(effect: LedgerEntry, fact: Fact, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
    match fact:
        case Approved() | ApprovalRejected():
            return _approval(effect, fact, now)
        case Sent():
            return _sent(effect, terms, now)
        case HandlerReturned() | RaisedNotApplied() | NotStarted() | Lost():
            return _answered(effect, fact, terms, now)
        case GivenUp():
            return _given_up(effect, terms, now)
        case Reconciled():
            return _reconciled(effect, fact, terms, now)
        case Judged():
            return _judged(effect, fact, terms, now)
        case Withdrawn():
            return _withdrawn(effect)
        case Inherited():
            return _inherited(effect, fact, now)
    assert_never(fact)


def _approval(
    effect: LedgerEntry, fact: Approved | ApprovalRejected, now: Instant
) -> Decision[LedgerEntry]:
    if effect.state is EffectState.WITHDRAWN:
        return Ignored(
            "the effect was withdrawn: its run was cancelled or ended before the effect was sent"
        )
    if effect.state is not EffectState.PLANNED or effect.approved:
        return Ignored(f"the effect is in state '{effect.state}' and is not waiting for approval")
    if isinstance(fact, Approved) and fact.is_dropped:
        return Refused("the run was cancelled or has ended, so the effect will not be sent")
    if isinstance(fact, Approved):
        return Moved(changed(effect, approved=True, due=now))
    return Moved(changed(effect, state=EffectState.FAILED))


def _sent(effect: LedgerEntry, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
    waits_to_repeat = effect.state is EffectState.NEEDS_RECONCILE and not terms.reconciles
    is_safe = effect.state not in UNCERTAIN or (waits_to_repeat and _is_known(effect, terms, now))
    if settled(effect) or not is_safe:
        return Refused(f"the effect is {effect.state}: nothing proves that sending is safe")
    if not effect.approved:
        return Refused("the effect is waiting for approval")
    if effect.due is not None and effect.due > now:
        return Refused("the effect is not due to be sent yet", until=effect.due)
    frame = window(terms, at=now)
    settle_until, known_until = frame.settle_until, effect.known_until
    if waits_to_repeat:  # a send before this one may still be on its way
        settle_until = max(settle_until, effect.settle_until or 0)
    if known_until is None and terms.idempotency_window is not None:
        known_until = now + terms.idempotency_window
    return Moved(
        changed(
            effect,
            state=EffectState.IN_FLIGHT,
            attempt=effect.attempt + 1,
            asks=0,
            start_by=frame.start_by,
            settle_until=settle_until,
            known_until=known_until,
            due=None,
            in_doubt=waits_to_repeat,
        )
    )


def _answered(
    effect: LedgerEntry,
    fact: HandlerReturned | RaisedNotApplied | NotStarted | Lost,
    terms: Terms,
    now: Instant,
) -> Decision[LedgerEntry]:
    if effect.state is EffectState.PLANNED:
        return Refused("the effect was never sent")
    if effect.state not in UNCERTAIN:
        return Ignored(f"the effect is {effect.state}: the answer comes too late")
    match fact:
        case HandlerReturned():
            return Moved(changed(effect, state=EffectState.APPLIED, asks=0, due=None))
        case RaisedNotApplied() if effect.in_doubt:
            # It speaks of the last send alone, and one before that may have happened.
            return Moved(_uncertain(effect, fact, terms, now, after=fact.after))
        case RaisedNotApplied():
            return Moved(_failed(effect, fact, terms, now))
        case NotStarted() | Lost() if effect.state is not EffectState.IN_FLIGHT:
            return Ignored("the effect is already uncertain")
        case NotStarted():
            return Moved(_not_started(effect, now))
        case Lost():
            return Moved(_uncertain(effect, fact, terms, now))
    assert_never(fact)


def _uncertain(
    effect: LedgerEntry,
    fact: RaisedNotApplied | Lost,
    terms: Terms,
    now: Instant,
    *,
    after: Duration | None = None,
) -> LedgerEntry:
    """Return an effect whose outcome is unknown: reconciled, sent again, or left to an operator."""
    if terms.reconciles:
        return changed(effect, state=EffectState.NEEDS_RECONCILE, asks=0, due=now)
    # An unknown outcome has no error type for a policy to match, but it has a time.
    error = AttemptFailure(retryable=True, after=after)
    again = decide(terms.retry, effect.attempt, error, fact.randomness, fact.elapsed)
    # Where the wait is too long for the key, an operator may still be in time for it.
    if isinstance(again, Again) and _is_known(effect, terms, now + again.after):
        return changed(effect, state=EffectState.NEEDS_RECONCILE, due=now + again.after)
    return changed(effect, state=EffectState.INDETERMINATE, due=None)


def _is_known(effect: LedgerEntry, terms: Terms, at: Instant) -> bool:
    """Return whether the receiver still knows the key when a send that begins at `at` arrives."""
    if terms.idempotency_window is None or effect.known_until is None:
        return False
    return at + terms.reach <= effect.known_until


def _failed(effect: LedgerEntry, fact: RaisedNotApplied, terms: Terms, now: Instant) -> LedgerEntry:
    # Who says when to come again has decided that it is tried again.
    error = AttemptFailure(fact.names, retryable=fact.after is not None, after=fact.after)
    again = decide(terms.retry, effect.attempt, error, fact.randomness, fact.elapsed)
    due = now + again.after if isinstance(again, Again) else None
    return changed(effect, state=EffectState.FAILED, asks=0, due=due)


def _not_started(effect: LedgerEntry, now: Instant) -> LedgerEntry:
    """Return an effect that is sent again soon: what never began is no attempt."""
    state = EffectState.NEEDS_RECONCILE if effect.in_doubt else EffectState.FAILED
    return changed(effect, state=state, attempt=effect.attempt - 1, due=now + START_AGAIN)


def _disproven(effect: LedgerEntry, terms: Terms, now: Instant) -> LedgerEntry:
    """Return an effect that others found not to have happened: it is sent again at once.

    There is no error here whose type could count, and its window has been waited for: of the policy
    only the number of attempts is left.
    """
    due = now if has_more(terms.retry, effect.attempt) else None
    return changed(effect, state=EffectState.FAILED, due=due)


def _given_up(effect: LedgerEntry, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
    if effect.state is not EffectState.NEEDS_RECONCILE:
        return Ignored(
            f"the effect is {effect.state}: it is not waiting for anything that could be given up"
        )
    if terms.reconciles or _is_known(effect, terms, now):
        return Refused("the reconciler can still be asked, or the effect sent again")
    return Moved(changed(effect, state=EffectState.INDETERMINATE, due=None))


def _reconciled(
    effect: LedgerEntry, fact: Reconciled, terms: Terms, now: Instant
) -> Decision[LedgerEntry]:
    if effect.state is not EffectState.NEEDS_RECONCILE:
        return Ignored(f"the effect is {effect.state}: no answer from the reconciler is expected")
    asked = changed(effect, asks=effect.asks + 1)
    if fact.answer is Answer.APPLIED:
        return Moved(changed(asked, state=EffectState.APPLIED, due=None))
    opens = _proof_opens(effect, now)
    if fact.answer is Answer.NOT_APPLIED and opens is None:
        return Moved(_disproven(asked, terms, now))
    if fact.answer is Answer.NOT_APPLIED:
        # Too early to be proof, but no sign that the reconciler cannot know: it is not counted.
        return Moved(changed(effect, due=opens))
    again = decide(RECONCILING, asked.asks, AttemptFailure(), randomness=fact.randomness)
    if isinstance(again, Again):
        return Moved(changed(asked, due=now + again.after))
    return Moved(changed(asked, state=EffectState.INDETERMINATE, due=None))


def _judged(effect: LedgerEntry, fact: Judged, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
    if settled(effect):
        return Ignored(f"the effect is already settled: its state is '{effect.state}'")
    if fact.version is not None and fact.version != effect.version:
        return Refused(
            f"the effect has changed: its version is {effect.version}, not {fact.version}"
        )
    if effect.state in (EffectState.PLANNED, EffectState.FAILED):
        if fact.verdict is Verdict.SKIP:
            return Moved(changed(effect, state=EffectState.SKIPPED, due=None))
        return Refused(f"the effect is in state '{effect.state}', so its outcome is known")
    opens = _proof_opens(effect, now)
    if effect.state is EffectState.IN_FLIGHT and opens is not None:
        return Refused(f"the call may be in progress until {instant_text(opens)}", until=opens)
    return _judged_uncertain(effect, fact, terms, now, opens)


def _judged_uncertain(
    effect: LedgerEntry, fact: Judged, terms: Terms, now: Instant, opens: Instant | None
) -> Decision[LedgerEntry]:
    match fact.verdict:
        case Verdict.APPLIED:
            return Moved(changed(effect, state=EffectState.APPLIED, due=None))
        case Verdict.SKIP:
            return Moved(changed(effect, state=EffectState.SKIPPED, due=None))
        case Verdict.NOT_APPLIED if opens is not None:
            return Refused(f"the call may still arrive until {instant_text(opens)}", until=opens)
        case Verdict.NOT_APPLIED if fact.is_dropped:
            return Moved(changed(effect, state=EffectState.FAILED, due=None))
        case Verdict.NOT_APPLIED:
            return Moved(_disproven(effect, terms, now))
        case Verdict.ASK_AGAIN if fact.is_dropped:
            return Refused("the run was cancelled or has ended; the reconciler is no longer called")
        case Verdict.ASK_AGAIN:
            return _asked_again(effect, terms, now)
    assert_never(fact.verdict)


def _asked_again(effect: LedgerEntry, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
    """Return an effect whose reconciler is asked once more, or whose receiver is, by a send."""
    if not terms.reconciles and not _is_known(effect, terms, now):
        if terms.idempotency_window is None or effect.known_until is None:
            return Refused("the effect has no reconciler")
        until = instant_text(effect.known_until)
        return Refused(
            f"the receiver remembers the key only until {until}, so the effect could happen twice"
        )
    return Moved(changed(effect, state=EffectState.NEEDS_RECONCILE, asks=0, due=now))


def _proof_opens(effect: LedgerEntry, now: Instant) -> Instant | None:
    """Return from when "not applied" counts, or None if it counts now."""
    opens = effect.settle_until
    return opens if opens is not None and now < opens else None


def _withdrawn(effect: LedgerEntry) -> Decision[LedgerEntry]:
    if settled(effect):
        return Ignored(f"the effect is already settled: its state is '{effect.state}'")
    if effect.state in UNCERTAIN:
        return Refused(f"the effect is {effect.state}: it may have happened")
    if effect.state is EffectState.PLANNED:
        return Moved(changed(effect, state=EffectState.WITHDRAWN, due=None))
    return Moved(changed(effect, due=None))  # it failed, and is not sent again


def _inherited(effect: LedgerEntry, fact: Inherited, now: Instant) -> Decision[LedgerEntry]:
    if fact.is_changed and effect.state in (EffectState.WITHDRAWN, EffectState.FAILED):
        asked = changed(effect, state=EffectState.PLANNED, attempt=0, asks=0, due=None)
        return Moved(changed(asked, approved=False))
    if effect.state is EffectState.WITHDRAWN:
        return Moved(planned(approve=not effect.approved))
    if effect.state is EffectState.FAILED and not effect.approved:
        return Moved(planned(approve=True))  # it was rejected: the retry has to ask again
    if effect.state is EffectState.FAILED:
        return Moved(changed(effect, attempt=0, asks=0, due=now))
    if effect.state in FINAL:
        return Ignored(f"the effect is {effect.state} for the retry as well")
    if effect.state is EffectState.IN_FLIGHT:
        return Refused("the effect is in flight: its outcome must be known first")
    return Moved(effect)  # what is said of it from now on is said to the retry
