"""The effect: never sent without proof that sending is safe."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.decision import Ignored, Moved, Refused
from onward.core.effect import (
    FINAL,
    START_WITHIN,
    UNCERTAIN,
    Answer,
    ApprovalRejected,
    Approved,
    EffectState,
    Fact,
    GivenUp,
    HandlerReturned,
    Inherited,
    Judged,
    LedgerEntry,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    Sent,
    Terms,
    Verdict,
    Window,
    Withdrawn,
    advance,
    consumer_origin,
    effect_key,
    planned,
    settled,
    widened,
    window,
)
from onward.core.instant import HOUR, MINUTE, SECOND
from onward.core.lease import LEASE
from onward.core.retry import Retry, failure
from onward.core.value import changed
from onward.errors import NotApplied

NOW = 1_000 * SECOND
WITH_RECONCILER = Terms(timeout=30 * SECOND, settle=10 * SECOND, reconciles=True)
WITHOUT = changed(WITH_RECONCILER, reconciles=False)
OPENS = NOW + START_WITHIN + 40 * SECOND

PLANNED = planned()
UNAPPROVED = planned(approve=True)
FLYING = LedgerEntry(
    EffectState.IN_FLIGHT, attempt=1, start_by=NOW + START_WITHIN, settle_until=OPENS
)
ASKING = changed(FLYING, state=EffectState.NEEDS_RECONCILE, due=NOW)
STUCK = changed(FLYING, state=EffectState.INDETERMINATE)
TRYING = changed(FLYING, state=EffectState.FAILED, due=NOW)
FAILED = changed(FLYING, state=EffectState.FAILED)
REJECTED = changed(UNAPPROVED, state=EffectState.FAILED)
APPLIED = changed(FLYING, state=EffectState.APPLIED)
SKIPPED = changed(FLYING, state=EffectState.SKIPPED)
WITHDRAWN = changed(PLANNED, state=EffectState.WITHDRAWN)
UNAPPROVED_WITHDRAWN = changed(UNAPPROVED, state=EffectState.WITHDRAWN)

EFFECTS = {
    "planned": PLANNED,
    "unapproved": UNAPPROVED,
    "in flight": FLYING,
    "asking": ASKING,
    "stuck": STUCK,
    "trying": TRYING,
    "failed": FAILED,
    "rejected": REJECTED,
    "applied": APPLIED,
    "skipped": SKIPPED,
    "withdrawn": WITHDRAWN,
    "unapproved, withdrawn": UNAPPROVED_WITHDRAWN,
}
FACTS: dict[str, Fact] = {
    "approved": Approved(),
    "approved, dropped": Approved(is_dropped=True),
    "rejected": ApprovalRejected(),
    "sent": Sent(),
    "returned": HandlerReturned(),
    "not applied": RaisedNotApplied(),
    "not started": NotStarted(),
    "lost": Lost(),
    "given up": GivenUp(),
    **{f"reconciler: {answer}": Reconciled(answer) for answer in Answer},
    **{f"verdict: {verdict}": Judged(verdict) for verdict in Verdict},
    **{f"verdict, dropped: {v}": Judged(v, is_dropped=True) for v in Verdict},
    "withdrawn": Withdrawn(),
    "inherited": Inherited(),
}

# What moves before the window has closed, with a reconciler. All else is ignored or refused.
EARLY: dict[tuple[str, str], EffectState] = {
    ("unapproved", "approved"): EffectState.PLANNED,
    ("unapproved", "rejected"): EffectState.FAILED,
    ("planned", "sent"): EffectState.IN_FLIGHT,
    ("trying", "sent"): EffectState.IN_FLIGHT,
    **{(name, "returned"): EffectState.APPLIED for name in ("in flight", "asking", "stuck")},
    **{(name, "not applied"): EffectState.FAILED for name in ("in flight", "asking", "stuck")},
    ("in flight", "not started"): EffectState.FAILED,
    ("in flight", "lost"): EffectState.NEEDS_RECONCILE,
    ("asking", "reconciler: applied"): EffectState.APPLIED,
    ("asking", "reconciler: not_applied"): EffectState.NEEDS_RECONCILE,
    ("asking", "reconciler: unknown"): EffectState.NEEDS_RECONCILE,
    **{(name, "verdict: applied"): EffectState.APPLIED for name in ("asking", "stuck")},
    **{
        (name, "verdict: skip"): EffectState.SKIPPED
        for name in ("planned", "unapproved", "asking", "stuck", "trying")
    },
    **{(name, "verdict: ask_again"): EffectState.NEEDS_RECONCILE for name in ("asking", "stuck")},
    **{
        (name, "verdict, dropped: skip"): EffectState.SKIPPED
        for name in ("planned", "unapproved", "asking", "stuck", "trying")
    },
    **{(name, "verdict, dropped: applied"): EffectState.APPLIED for name in ("asking", "stuck")},
    **{(name, "withdrawn"): EffectState.WITHDRAWN for name in ("planned", "unapproved")},
    ("trying", "withdrawn"): EffectState.FAILED,
    ("trying", "inherited"): EffectState.FAILED,
    ("failed", "inherited"): EffectState.FAILED,
    **{
        (name, "inherited"): EffectState.PLANNED
        for name in ("planned", "unapproved", "rejected", "withdrawn", "unapproved, withdrawn")
    },
    ("asking", "inherited"): EffectState.NEEDS_RECONCILE,
    ("stuck", "inherited"): EffectState.INDETERMINATE,
}
LATE = EARLY | {
    ("asking", "reconciler: not_applied"): EffectState.FAILED,
    ("asking", "verdict: not_applied"): EffectState.FAILED,
    ("stuck", "verdict: not_applied"): EffectState.FAILED,
    ("in flight", "verdict: applied"): EffectState.APPLIED,
    ("in flight", "verdict: not_applied"): EffectState.FAILED,
    ("in flight", "verdict: skip"): EffectState.SKIPPED,
    ("in flight", "verdict: ask_again"): EffectState.NEEDS_RECONCILE,
    **{
        (name, "verdict, dropped: not_applied"): EffectState.FAILED
        for name in ("in flight", "asking", "stuck")
    },
    ("in flight", "verdict, dropped: applied"): EffectState.APPLIED,
    ("in flight", "verdict, dropped: skip"): EffectState.SKIPPED,
}


@pytest.mark.parametrize(("now", "moves"), [(OPENS - 1, EARLY), (OPENS, LATE)])
@pytest.mark.parametrize(("effect", "fact"), list(product(EFFECTS, FACTS)))
def test_every_fact_about_every_effect_is_decided(
    effect: str, fact: str, now: int, moves: dict[tuple[str, str], EffectState]
) -> None:
    before = EFFECTS[effect]

    decision = advance(before, FACTS[fact], WITH_RECONCILER, now=now)

    if (effect, fact) in moves:
        assert isinstance(decision, Moved)
        assert decision.to.state is moves[effect, fact]
        assert decision.to.version == before.version + 1
    else:
        assert isinstance(decision, Ignored | Refused)


def moved(
    effect: LedgerEntry, fact: Fact, terms: Terms = WITH_RECONCILER, now: int = NOW
) -> LedgerEntry:
    decision = advance(effect, fact, terms, now=now)
    assert isinstance(decision, Moved)
    return decision.to


def test_a_withdrawn_effect_is_planned_again_by_a_retry_and_keeps_its_approval() -> None:
    assert moved(WITHDRAWN, Inherited()) == changed(PLANNED, version=1)
    assert moved(UNAPPROVED_WITHDRAWN, Inherited()) == changed(UNAPPROVED, version=1)


@pytest.mark.parametrize("effect", [WITHDRAWN, UNAPPROVED_WITHDRAWN, moved(TRYING, Withdrawn())])
def test_what_is_withdrawn_has_settled_and_is_not_sent(effect: LedgerEntry) -> None:
    assert settled(effect)
    assert isinstance(advance(effect, Sent(), WITHOUT, now=OPENS), Refused)


def test_what_a_dropped_effect_is_proven_not_to_have_done_is_not_sent_again() -> None:
    judged = moved(STUCK, Judged(Verdict.NOT_APPLIED, is_dropped=True), now=OPENS)

    assert settled(judged)


def test_a_send_is_recorded_with_the_window_in_which_it_can_arrive() -> None:
    sent = moved(PLANNED, Sent())

    assert sent == LedgerEntry(
        EffectState.IN_FLIGHT,
        version=1,
        attempt=1,
        start_by=NOW + START_WITHIN,
        settle_until=OPENS,
    )


def test_the_window_of_the_sender_ends_before_that_of_the_ledger() -> None:
    assert window(WITHOUT, at=0) == Window(
        START_WITHIN, START_WITHIN + 30 * SECOND, START_WITHIN + 40 * SECOND
    )


def test_a_window_is_widened_by_what_slow_writes_need_and_by_two_leases_at_most() -> None:
    for needed, allowed in ((-SECOND, 0), (4 * SECOND, 4 * SECOND), (HOUR, 2 * LEASE)):
        wider = widened(WITHOUT, needed)
        assert wider.start_within == WITHOUT.start_within + allowed
        assert wider.reach == WITHOUT.reach + allowed


def test_an_uncertain_effect_without_a_reconciler_waits_for_a_verdict() -> None:
    assert moved(FLYING, Lost(), WITHOUT).state is EffectState.INDETERMINATE


def test_an_uncertain_effect_is_asked_about_at_once() -> None:
    assert moved(FLYING, Lost()).due == NOW


def test_the_reconciler_is_asked_five_times_with_growing_waits() -> None:
    effect, waits = moved(FLYING, Lost()), []
    while effect.due is not None:
        now = effect.due
        effect = moved(effect, Reconciled(Answer.UNKNOWN), now=now)
        waits.append(None if effect.due is None else (effect.due - now) // SECOND)

    assert waits == [10, 20, 40, 80, None]
    assert (effect.state, effect.asks) == (EffectState.INDETERMINATE, 5)


def test_too_early_a_not_applied_is_asked_again_when_it_counts_and_not_held_against_it() -> None:
    asked = moved(ASKING, Reconciled(Answer.NOT_APPLIED), now=OPENS - 1)

    assert (asked.state, asked.due, asked.asks) == (EffectState.NEEDS_RECONCILE, OPENS, 0)


@pytest.mark.parametrize(
    ("retry", "sends"),
    [
        (Retry(), 3),
        (Retry(attempts=1), 1),
        (Retry(attempts=20), 20),
        # There is no error of a type that could be listed, and nothing is waited for.
        (Retry(attempts=2, only=ValueError), 2),
        (Retry(attempts=2, never=NotApplied), 2),
        (Retry(attempts=2, delay="1h", max_delay="1h", within="1m"), 2),
    ],
)
@pytest.mark.parametrize(
    "proof", [Reconciled(Answer.NOT_APPLIED), Judged(Verdict.NOT_APPLIED)], ids=["found", "judged"]
)
def test_after_proof_it_is_sent_again_at_once_as_often_as_its_policy_says(
    retry: Retry, sends: int, proof: Fact
) -> None:
    terms = changed(WITH_RECONCILER, retry=retry)
    effect, now = PLANNED, NOW
    for attempt in range(1, sends + 1):
        effect = moved(effect, Sent(), terms, now=now)
        effect = moved(effect, Lost(), terms, now=now)
        now += 10 * MINUTE
        effect = moved(effect, proof, terms, now=now)
        assert effect.due == (now if attempt < sends else None)

    assert (effect.state, effect.attempt) == (EffectState.FAILED, sends)
    assert isinstance(advance(effect, Sent(), terms, now=now), Refused)


def test_after_proof_it_is_sent_again_without_end_if_its_policy_has_none() -> None:
    terms = changed(WITH_RECONCILER, retry=Retry(attempts=None))

    again = moved(changed(ASKING, attempt=1000), Reconciled(Answer.NOT_APPLIED), terms, now=OPENS)

    assert again.due == OPENS


def test_a_raised_not_applied_is_tried_again_as_the_retry_says() -> None:
    terms = changed(WITH_RECONCILER, retry=Retry(attempts=2, delay="5s"))

    first = moved(FLYING, RaisedNotApplied(), terms)
    last = moved(changed(FLYING, attempt=2), RaisedNotApplied(), terms)

    assert first.due == NOW + 5 * SECOND
    assert last.due is None


def test_a_raised_not_applied_may_say_when_to_come_again() -> None:
    assert moved(FLYING, RaisedNotApplied(after=3 * SECOND)).due == NOW + 3 * SECOND


class Busy(NotApplied):
    pass


@pytest.mark.parametrize(
    ("retry", "kind", "is_tried_again"),
    [
        (Retry(only=Busy), Busy, True),
        (Retry(only=Busy), NotApplied, False),
        (Retry(never=Busy), Busy, False),
        (Retry(never=Busy), NotApplied, True),
    ],
)
def test_a_policy_goes_by_the_type_of_what_was_raised(
    retry: Retry, kind: type[NotApplied], is_tried_again: bool
) -> None:
    terms = changed(WITHOUT, retry=retry)

    failed = moved(FLYING, RaisedNotApplied(names=failure(kind).names), terms)

    assert (failed.due is not None) == is_tried_again


def test_who_says_when_to_come_again_is_heard_whatever_the_policy_lists() -> None:
    terms = changed(WITHOUT, retry=Retry(only=Busy))

    assert moved(FLYING, RaisedNotApplied(after=0, names=("NotApplied",)), terms).due == NOW


def test_an_effect_that_is_to_be_tried_later_is_not_sent_yet() -> None:
    later = changed(TRYING, due=NOW + 1)

    assert advance(later, Sent(), WITHOUT, now=NOW) == Refused(
        "the effect is not due to be sent yet", until=NOW + 1
    )


def test_an_effect_that_waits_for_approval_is_not_sent() -> None:
    assert isinstance(advance(UNAPPROVED, Sent(), WITHOUT, now=NOW), Refused)


def test_an_approved_effect_is_sent() -> None:
    assert moved(moved(UNAPPROVED, Approved()), Sent()).state is EffectState.IN_FLIGHT


@pytest.mark.parametrize("state", [FAILED, WITHDRAWN])
def test_an_approval_is_not_inherited_with_other_arguments(state: LedgerEntry) -> None:
    asked = moved(
        changed(state, approved=True, attempt=3, known_until=NOW), Inherited(is_changed=True)
    )
    assert (asked.state, asked.approved, asked.attempt) == (EffectState.PLANNED, False, 0)
    assert asked.known_until == NOW


def test_a_rejected_effect_is_settled_and_a_retry_asks_for_approval_again() -> None:
    rejected = moved(UNAPPROVED, ApprovalRejected())
    assert settled(rejected)

    again = moved(rejected, Inherited())

    assert isinstance(advance(again, Sent(), WITHOUT, now=NOW), Refused)
    assert moved(moved(again, Approved()), Sent()).attempt == 1


def test_too_early_a_verdict_of_not_applied_is_refused_with_the_time_from_which_it_counts() -> None:
    for effect in (FLYING, ASKING, STUCK):
        refused = advance(effect, Judged(Verdict.NOT_APPLIED), WITHOUT, now=OPENS - 1)
        assert isinstance(refused, Refused)
        assert refused.until == OPENS
        assert "1970-01-01T00:17:35Z" in refused.why


def test_there_is_nobody_to_ask_again_without_a_reconciler() -> None:
    assert isinstance(advance(STUCK, Judged(Verdict.ASK_AGAIN), WITHOUT, now=OPENS), Refused)


def test_asking_again_begins_to_count_anew() -> None:
    again = moved(changed(STUCK, asks=5), Judged(Verdict.ASK_AGAIN))

    assert (again.state, again.asks, again.due) == (EffectState.NEEDS_RECONCILE, 0, NOW)


def test_of_two_operators_who_saw_the_same_row_one_wins() -> None:
    decided = moved(changed(STUCK, version=4), Judged(Verdict.ASK_AGAIN, version=4))

    late = advance(decided, Judged(Verdict.APPLIED, version=4), WITH_RECONCILER, now=NOW)

    assert isinstance(late, Refused)


def test_a_verdict_on_a_settled_effect_changes_nothing() -> None:
    for effect in (APPLIED, SKIPPED, FAILED):
        decision = advance(effect, Judged(Verdict.NOT_APPLIED), WITH_RECONCILER, now=OPENS)
        assert isinstance(decision, Ignored)


def test_a_retry_of_the_run_gets_attempts_of_its_own_and_keeps_what_is_applied() -> None:
    again = moved(changed(FAILED, attempt=3), Inherited())

    assert moved(again, Sent()).attempt == 1
    assert isinstance(advance(APPLIED, Inherited(), WITHOUT, now=NOW), Ignored)
    assert moved(STUCK, Inherited(is_changed=True)) == changed(STUCK, version=STUCK.version + 1)
    assert moved(STUCK, Inherited()) == changed(STUCK, version=STUCK.version + 1)


def test_a_send_that_never_began_is_no_attempt_and_is_made_again_however_often() -> None:
    effect = changed(FLYING, attempt=9)

    to = moved(effect, NotStarted())

    assert (to.state, to.attempt) == (EffectState.FAILED, 8)
    assert to.due is not None
    assert moved(to, Sent(), now=to.due).attempt == 9


@settings(max_examples=300)
@given(
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(sorted(FACTS)), st.integers(0, 5 * MINUTE)), max_size=30),
)
def test_nothing_is_sent_again_before_proof_and_a_settled_change_stays(
    approve: bool, reconciles: bool, facts: list[tuple[str, int]]
) -> None:
    terms = changed(WITH_RECONCILER, reconciles=reconciles)
    effect, now = planned(approve=approve), NOW
    for name, passed in facts:
        now += passed
        fact = FACTS[name]
        decision = advance(effect, fact, terms, now=now)
        if isinstance(decision, Moved):
            to = decision.to
            assert effect.state not in FINAL
            if to.attempt > effect.attempt:
                assert effect.state in (EffectState.PLANNED, EffectState.FAILED)
            if effect.state in UNCERTAIN and to.state is EffectState.FAILED:
                early = effect.settle_until is not None and now < effect.settle_until
                assert isinstance(fact, RaisedNotApplied | NotStarted) or not early
            effect = to


def test_a_key_is_stable_and_depends_on_root_and_identity() -> None:
    assert effect_key("root", ":charge#1") == "590fcad5c00cd682483e4183358fed39"
    assert effect_key("root", ":charge#2") != effect_key("root", ":charge#1")
    assert effect_key("ab", "c") != effect_key("a", "bc")


def test_the_key_of_a_consumer_depends_on_its_events_and_not_on_their_order() -> None:
    events = [("b", 0), ("a", 0)]
    origin = consumer_origin("mail.Add", "", events)
    assert consumer_origin("mail.Add", "", reversed(events)) == origin
    assert consumer_origin("mail.Add", "", [("ab", 0)]) != origin
    assert consumer_origin("mail.Add", "key", events) != origin
    assert consumer_origin("mail.Log", "", events) != origin


def test_an_event_that_is_handled_again_makes_another_effect() -> None:
    """E9: the second handling does not meet the row of the first."""
    first = consumer_origin("mail.Add", "", [("a", 0), ("b", 0)])
    again = consumer_origin("mail.Add", "", [("a", 1), ("b", 0)])

    assert effect_key(first, ":charge#1") != effect_key(again, ":charge#1")
