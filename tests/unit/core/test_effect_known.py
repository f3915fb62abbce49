"""An effect whose receiver knows its key: sent again on doubt, and never called undone on doubt."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.decision import Ignored, Moved, Refused
from onward.core.effect import (
    START_WITHIN,
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
    advance,
    planned,
    settled,
)
from onward.core.instant import HOUR, MINUTE, SECOND
from onward.core.retry import Retry
from onward.core.value import changed

NOW = 1_000 * SECOND
TERMS = Terms(timeout=30 * SECOND, settle=10 * SECOND, idempotency_window=HOUR)
REACH = START_WITHIN + 40 * SECOND
KNOWN_UNTIL = NOW + HOUR
LAST = KNOWN_UNTIL - REACH
"""When it can be sent again at the latest."""

OPENS = NOW + REACH
FLYING = LedgerEntry(
    EffectState.IN_FLIGHT,
    attempt=1,
    start_by=NOW + START_WITHIN,
    settle_until=OPENS,
    known_until=KNOWN_UNTIL,
)
IN_DOUBT = changed(FLYING, attempt=2, in_doubt=True)
REPEATING = changed(FLYING, state=EffectState.NEEDS_RECONCILE, due=NOW)
STUCK = changed(FLYING, state=EffectState.INDETERMINATE, attempt=3)
EFFECTS = {
    "planned": planned(),
    "in flight": FLYING,
    "in doubt": IN_DOUBT,
    "repeating": REPEATING,
    "stuck": STUCK,
    "trying": changed(FLYING, state=EffectState.FAILED, due=NOW),
    "failed": changed(FLYING, state=EffectState.FAILED),
    "applied": changed(FLYING, state=EffectState.APPLIED),
    "skipped": changed(FLYING, state=EffectState.SKIPPED),
}
FACTS: dict[str, Fact] = {
    "approved": Approved(),
    "rejected": ApprovalRejected(),
    "sent": Sent(),
    "returned": HandlerReturned(),
    "not applied": RaisedNotApplied(),
    "not started": NotStarted(),
    "lost": Lost(),
    "given up": GivenUp(),
    **{f"reconciler: {answer}": Reconciled(answer) for answer in Answer},
    **{f"verdict: {verdict}": Judged(verdict) for verdict in Verdict},
    "inherited": Inherited(),
}
OPEN = ("in flight", "in doubt", "repeating", "stuck")

# What moves while the window is open and the key is known. All else is ignored or refused.
EARLY: dict[tuple[str, str], EffectState] = {
    **{(name, "sent"): EffectState.IN_FLIGHT for name in ("planned", "trying", "repeating")},
    **{(name, "returned"): EffectState.APPLIED for name in OPEN},
    **{(name, "not applied"): EffectState.FAILED for name in ("in flight", "repeating", "stuck")},
    ("in doubt", "not applied"): EffectState.NEEDS_RECONCILE,
    ("in flight", "not started"): EffectState.FAILED,
    ("in doubt", "not started"): EffectState.NEEDS_RECONCILE,
    **{(name, "lost"): EffectState.NEEDS_RECONCILE for name in ("in flight", "in doubt")},
    ("repeating", "reconciler: applied"): EffectState.APPLIED,
    ("repeating", "reconciler: not_applied"): EffectState.NEEDS_RECONCILE,
    ("repeating", "reconciler: unknown"): EffectState.NEEDS_RECONCILE,
    **{(name, "verdict: applied"): EffectState.APPLIED for name in ("repeating", "stuck")},
    **{
        (name, "verdict: skip"): EffectState.SKIPPED
        for name in ("planned", "repeating", "stuck", "trying")
    },
    **{
        (name, "verdict: ask_again"): EffectState.NEEDS_RECONCILE for name in ("repeating", "stuck")
    },
    **{(name, "inherited"): EffectState.FAILED for name in ("trying", "failed")},
    ("planned", "inherited"): EffectState.PLANNED,
    ("repeating", "inherited"): EffectState.NEEDS_RECONCILE,
    ("stuck", "inherited"): EffectState.INDETERMINATE,
}
LATE = EARLY | {
    ("repeating", "reconciler: not_applied"): EffectState.FAILED,
    **{(name, "verdict: not_applied"): EffectState.FAILED for name in OPEN},
    **{(name, "verdict: applied"): EffectState.APPLIED for name in OPEN},
    **{(name, "verdict: skip"): EffectState.SKIPPED for name in (*OPEN, "planned", "trying")},
    **{(name, "verdict: ask_again"): EffectState.NEEDS_RECONCILE for name in OPEN},
}
TOO_LATE = {
    pair: state
    for pair, state in LATE.items()
    if pair != ("repeating", "sent") and pair[1] != "verdict: ask_again"
} | {
    ("in doubt", "not applied"): EffectState.INDETERMINATE,
    **{(name, "lost"): EffectState.INDETERMINATE for name in ("in flight", "in doubt")},
    ("repeating", "given up"): EffectState.INDETERMINATE,
}


@pytest.mark.parametrize(
    ("now", "moves"),
    [(OPENS - 1, EARLY), (OPENS, LATE), (LAST - 2 * SECOND, LATE), (LAST + 1, TOO_LATE)],
)
@pytest.mark.parametrize(("effect", "fact"), list(product(EFFECTS, FACTS)))
def test_every_fact_about_every_effect_is_decided(
    effect: str, fact: str, now: int, moves: dict[tuple[str, str], EffectState]
) -> None:
    before = EFFECTS[effect]

    decision = advance(before, FACTS[fact], TERMS, now=now)

    if (effect, fact) in moves:
        assert isinstance(decision, Moved)
        assert decision.to.state is moves[effect, fact]
        assert decision.to.version == before.version + 1
    else:
        assert isinstance(decision, Ignored | Refused)


def moved(effect: LedgerEntry, fact: Fact, terms: Terms = TERMS, now: int = NOW) -> LedgerEntry:
    decision = advance(effect, fact, terms, now=now)
    assert isinstance(decision, Moved)
    return decision.to


def test_the_key_is_known_from_the_first_send_on() -> None:
    first = moved(planned(), Sent())
    again = moved(moved(first, Lost(), now=NOW), Sent(), now=NOW + MINUTE)

    assert first.known_until == NOW + HOUR
    assert again.known_until == first.known_until


def test_where_no_keys_are_kept_none_is_known() -> None:
    assert moved(planned(), Sent(), changed(TERMS, idempotency_window=None)).known_until is None


def test_an_uncertain_send_is_made_again_after_the_waits_of_its_policy() -> None:
    terms = changed(TERMS, retry=Retry(attempts=4, delay="5s", jitter=0.1))
    effect, now, waits = planned(), NOW, []
    while True:
        effect = moved(effect, Sent(), terms, now=now)
        effect = moved(effect, Lost(randomness=1.0), terms, now=now)
        if effect.due is None:
            break
        assert effect.state is EffectState.NEEDS_RECONCILE
        waits.append((effect.due - now) / SECOND)
        now = effect.due

    assert waits == [5.5, 11, 22]
    assert (effect.state, effect.attempt) == (EffectState.INDETERMINATE, 4)


def test_it_is_not_sent_before_its_time() -> None:
    waiting = changed(REPEATING, due=NOW + 1)

    assert advance(waiting, Sent(), TERMS, now=NOW) == Refused(
        "the effect is not due to be sent yet", until=NOW + 1
    )


@pytest.mark.parametrize("retry", [Retry(only=ValueError), Retry(never=Exception)])
def test_of_a_policy_only_attempts_and_waits_count_for_a_send_that_nobody_answered(
    retry: Retry,
) -> None:
    assert moved(FLYING, Lost(), changed(TERMS, retry=retry)).due == NOW + SECOND


def test_the_last_send_is_one_that_arrives_while_the_key_is_known() -> None:
    assert moved(changed(REPEATING, due=LAST), Sent(), now=LAST).attempt == 2
    assert isinstance(advance(REPEATING, Sent(), TERMS, now=LAST + 1), Refused)
    assert isinstance(advance(REPEATING, GivenUp(), TERMS, now=LAST), Refused)


def test_a_wait_that_is_too_long_for_the_key_leaves_it_to_an_operator_who_may_be_faster() -> None:
    now = LAST - SECOND // 2

    stuck = moved(FLYING, Lost(), now=now)

    assert (stuck.state, stuck.due) == (EffectState.INDETERMINATE, None)
    assert moved(stuck, Judged(Verdict.ASK_AGAIN), now=now).due == now


def test_a_no_of_the_second_send_says_nothing_of_the_first() -> None:
    again = moved(moved(moved(planned(), Sent()), Lost()), Sent(), now=NOW + SECOND)

    refused = moved(again, RaisedNotApplied(after=3 * SECOND), now=NOW + SECOND)

    assert (refused.state, refused.due) == (EffectState.NEEDS_RECONCILE, NOW + 4 * SECOND)
    assert not settled(moved(changed(again, attempt=3), RaisedNotApplied()))


def test_a_no_of_the_only_send_is_a_no() -> None:
    first = moved(planned(), Sent())
    again = moved(moved(first, RaisedNotApplied()), Sent(), now=NOW + MINUTE)

    assert moved(first, RaisedNotApplied()).state is EffectState.FAILED
    assert moved(again, RaisedNotApplied()).state is EffectState.FAILED


def test_when_no_attempt_is_left_an_operator_lets_it_be_sent_once_more() -> None:
    asked = moved(STUCK, Judged(Verdict.ASK_AGAIN))
    assert (asked.state, asked.due) == (EffectState.NEEDS_RECONCILE, NOW)

    again = moved(asked, Sent())

    assert again.attempt == 4
    assert moved(again, Lost()).state is EffectState.INDETERMINATE


def test_an_operator_is_told_why_it_is_not_sent_any_more() -> None:
    refused = advance(STUCK, Judged(Verdict.ASK_AGAIN), TERMS, now=LAST + 1)

    assert refused == Refused(
        "the receiver remembers the key only until 1970-01-01T01:16:40Z, so the effect could "
        "happen twice"
    )


def test_a_window_that_was_longer_once_is_not_over_because_it_was_sent_again() -> None:
    long = changed(REPEATING, settle_until=NOW + 30 * MINUTE)

    assert moved(long, Sent()).settle_until == NOW + 30 * MINUTE
    assert moved(REPEATING, Sent(), now=NOW + MINUTE).settle_until == NOW + MINUTE + REACH


def test_a_retry_of_the_run_does_not_make_the_key_younger() -> None:
    again = moved(EFFECTS["failed"], Inherited(), now=NOW + MINUTE)

    assert moved(again, Sent(), now=NOW + MINUTE).known_until == KNOWN_UNTIL


@pytest.mark.parametrize(
    ("effect", "terms"),
    [
        (changed(REPEATING, known_until=None), TERMS),  # it was sent by code that knew no better
        (REPEATING, changed(TERMS, idempotency_window=None)),  # the code knows better now
    ],
)
def test_code_that_says_something_else_of_keys_than_the_ledger_does_not_send_on_doubt(
    effect: LedgerEntry, terms: Terms
) -> None:
    assert isinstance(advance(effect, Sent(), terms, now=NOW), Refused)
    assert isinstance(advance(effect, Judged(Verdict.ASK_AGAIN), terms, now=NOW), Refused)
    assert moved(effect, GivenUp(), terms).state is EffectState.INDETERMINATE


@settings(max_examples=500)
@given(st.integers(1, 4), st.data())
def test_nothing_is_applied_twice_and_not_applied_is_true(
    attempts: int, data: st.DataObject
) -> None:
    """A receiver that forgets keys as soon as it may, and people who say what is so."""
    terms = changed(TERMS, idempotency_window=5 * MINUTE, retry=Retry(attempts=attempts))
    effect, now = planned(), NOW
    applied, forgets, last_applied = 0, 0, False
    for _ in range(data.draw(st.integers(0, 25))):
        now += data.draw(st.sampled_from([0, SECOND, MINUTE, 5 * MINUTE - REACH + 4 * SECOND]))
        facts: list[Fact] = [Sent(), Lost(), GivenUp(), Inherited(), Judged(Verdict.ASK_AGAIN)]
        facts.append(Judged(Verdict.APPLIED if applied else Verdict.NOT_APPLIED))
        if effect.state is EffectState.IN_FLIGHT:
            facts.append(HandlerReturned() if last_applied else RaisedNotApplied())
        fact = data.draw(st.sampled_from(facts))
        decision = advance(effect, fact, terms, now=now)
        if not isinstance(decision, Moved):
            continue
        effect = decision.to
        if isinstance(fact, Sent):
            arrives = now + data.draw(st.sampled_from([0, REACH]))
            last_applied = data.draw(st.booleans())
            if last_applied and (not applied or arrives > forgets):
                applied, forgets = applied + 1, arrives + 5 * MINUTE
        assert applied <= 1
        if effect.state is EffectState.FAILED:
            assert applied == 0
