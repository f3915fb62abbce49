"""The list of sends and questions that operators see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.effect import (
    Answer,
    EffectState,
    GivenUp,
    HandlerReturned,
    LedgerEntry,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    add_outcome,
    add_send,
)
from onward.core.effect.attempts import MAX_ATTEMPTS

if TYPE_CHECKING:
    from onward.core.effect import Fact

OPEN = LedgerEntry(EffectState.NEEDS_RECONCILE)
FAILED = LedgerEntry(EffectState.FAILED)


def test_a_send_has_no_outcome_before_it_has_ended() -> None:
    [send] = add_send((), 5)
    assert (send.kind, send.number, send.began, send.ended, send.outcome) == (
        "send", 1, 5, None, None,
    )  # fmt: skip


def test_each_fact_about_a_send_is_its_outcome() -> None:
    facts: dict[Fact, str] = {
        HandlerReturned(): "returned",
        RaisedNotApplied(): "not_applied",
        NotStarted(): "not_started",
        Lost(): "unknown",
    }
    for fact, outcome in facts.items():
        [send] = add_outcome(add_send((), 5), fact, OPEN, began=7, ended=8, error="OSError")
        assert send[2:] == (5, 8, outcome, "OSError")


def test_not_applied_is_too_early_while_the_effect_stays_uncertain() -> None:
    fact = Reconciled(Answer.NOT_APPLIED)
    for to, outcome in ((OPEN, "too_early"), (FAILED, "not_applied")):
        [question] = add_outcome((), fact, to, began=7, ended=8)
        assert question == ("reconcile", 1, 7, 8, outcome, None)


def test_a_fact_that_is_not_about_a_call_leaves_the_list() -> None:
    sent = add_send((), 5)
    assert add_outcome(sent, GivenUp(), OPEN, began=7, ended=8) is sent


def test_an_answer_does_not_change_an_attempt_that_has_ended() -> None:
    ended = add_outcome(add_send((), 5), Lost(), OPEN, began=7, ended=8)
    assert add_outcome(ended, HandlerReturned(), OPEN, began=9, ended=9) == ended


def test_a_long_list_loses_its_oldest_entries_and_keeps_counting() -> None:
    attempts = add_outcome(add_send((), 0), Lost(), OPEN, began=0, ended=0)
    for number in range(2 * MAX_ATTEMPTS):
        fact = Reconciled(Answer.UNKNOWN)
        attempts = add_outcome(attempts, fact, OPEN, began=number, ended=number)
    attempts = add_send(attempts, 999)

    assert len(attempts) == MAX_ATTEMPTS
    assert [(each.kind, each.number) for each in attempts[-2:]] == [
        ("reconcile", 2 * MAX_ATTEMPTS),
        ("send", 2),
    ]
