"""Effects in simulated worlds, and bugs that are put in on purpose: each must be seen."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.effect import EffectState, Reconciled
from onward.core.value import changed
from onward.runtime.ledger import Ledger
from onward.runtime.sender import Sender
from onward.testing.simulation import Failed, Simulation
from onward.testing.simulation.ledger_rules import (
    EffectSeen,
    broken_ledger,
    broken_outside,
    unsendable,
)
from onward.testing.simulation.plan import draw_plan
from onward.testing.simulation.purchases import purchases

if TYPE_CHECKING:
    from onward.core.effect import Answer, Effect, Terms
    from onward.core.instant import Instant
    from onward.runtime.effects import EffectCall

SEEDS_MOST = 80


def a_world(seed: int) -> Simulation:
    """Return a world in which all runs change what is outside."""
    return Simulation(seed, draw_plan(seed, (purchases.name,)))


def test_whatever_happens_the_ledger_and_the_outside_agree() -> None:
    seen: set[str] = set()
    for seed in range(40):
        trace = a_world(seed).run()
        seen |= {f"verdict {event.detail[2]}" for event in trace.of("verdict")}
        seen |= {f"send {min(event.detail[1], 2)}" for event in trace.of("send")}
        rows = [row for event in trace.of("commit") for row in event.detail if row[0] == "effect"]
        seen |= {EffectSeen._make(row[2]).state for row in rows}
    verdicts = {"verdict applied", "verdict not_applied", "verdict skip", "verdict ask_again"}
    assert seen >= {*EffectState, *verdicts, "verdict True", "verdict False", "send 1", "send 2"}


# --- the zoo --------------------------------------------------------------------------------------


def is_seen(*signs: str) -> bool:
    """Say whether some world sees the bug that is in, and says what it is."""
    for seed in range(SEEDS_MOST):
        try:
            a_world(seed).run()
        except Failed as failed:
            assert any(sign in str(failed) for sign in signs), failed
            return True
    return False


def test_an_effect_that_is_sent_again_because_its_worker_vanished_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hopefully(effect: Effect, terms: Terms, now: Instant) -> Effect:
        return changed(effect, state=EffectState.FAILED, due=now)

    monkeypatch.setattr("onward.core.effect.machine._uncertain", hopefully)
    assert is_seen("was applied 2 times")


def test_a_no_that_counts_at_once_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.core.effect.machine._proof_opens", lambda *_: None)
    assert is_seen("too early")


def test_a_send_before_its_intent_is_written_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def hastily(self: Ledger, call: EffectCall) -> None:
        call.effect = changed(call.effect, state=EffectState.IN_FLIGHT, attempt=1)
        self._intended(call, self._host.clock.monotonic())

    monkeypatch.setattr(Ledger, "_send", hastily)
    assert is_seen("the ledger does not know of it")


def test_a_no_that_counts_from_when_it_came_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_of_now(self: Ledger, call: EffectCall, answer: Answer, result: bytes | None) -> None:
        self._move(call, Reconciled(answer), result=result)

    monkeypatch.setattr(Ledger, "answered", as_of_now)
    assert is_seen("was applied 2 times", "it is applied")


def test_a_window_that_counts_from_before_the_commit_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.runtime.ledger._kept", lambda effect, *_: effect)
    assert is_seen("too early")


def test_a_window_that_ends_early_where_the_clock_was_put_back_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.runtime.ledger._later", lambda effect, _: effect)
    assert is_seen("too early")


def test_a_send_without_a_look_at_the_clock_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sender, "_check_start", lambda *_: None)
    monkeypatch.setattr("onward.runtime.effects.Sending.clock", partial(Any), raising=False)
    assert is_seen("was applied 2 times", "it is applied")


# --- the rules ------------------------------------------------------------------------------------

ROW = EffectSeen("k", "run", "charge", "needs_reconcile", 3, 1, 1, 100, None, None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (ROW, None, "vanished"),
        (None, ROW, "from nowhere"),
        (ROW, ROW._replace(state="in_flight", version=4, attempt=2), "went from needs_reconcile"),
        (ROW._replace(state="applied"), ROW._replace(version=4), "went from applied"),
        (ROW, ROW._replace(state="applied"), "from version 3 to 3"),
        (ROW, ROW._replace(version=4, attempt=2), "another attempt"),
        (ROW, ROW._replace(state="failed", version=4), "too early"),
    ],
)
def test_a_ledger_that_breaks_a_rule_is_told_on(
    old: EffectSeen | None, new: EffectSeen | None, why: str
) -> None:
    before, after = ({} if row is None else {"k": row} for row in (old, new))
    assert any(why in rule for rule in broken_ledger(before, after, 99))


def test_a_ledger_that_keeps_the_rules_is_let_pass() -> None:
    failed = ROW._replace(state="failed", version=4)
    assert list(broken_ledger({"k": ROW}, {"k": failed}, 100)) == []
    assert list(broken_ledger({"k": ROW}, {"k": failed}, 99, {"k"})) == []
    assert list(broken_ledger({}, {"k": ROW._replace(state="in_flight", version=1)}, 0)) == []


@pytest.mark.parametrize(
    ("row", "times", "why"),
    [
        (None, 1, "does not know"),
        (ROW._replace(state="applied"), 1, "it is applied"),
        (ROW, 2, "intended 1 times"),
        (ROW, 1, None),
    ],
)
def test_what_may_not_be_sent_is_told_on(
    row: EffectSeen | None, times: int, why: str | None
) -> None:
    told = unsendable(row, times)
    assert told == why or (why is not None and told is not None and why in told)


@pytest.mark.parametrize(
    ("state", "applied", "is_right"),
    [("applied", 1, True), ("applied", 2, False), ("failed", 0, True), ("failed", 1, False)],
)
def test_what_the_outside_has_is_held_against_the_ledger(
    state: str, applied: int, is_right: bool
) -> None:
    ledger = {"k": ROW._replace(state=state)}
    broken = list(broken_outside(ledger, Counter({"k": 2}), Counter({"k": applied})))
    assert (broken == []) == is_right
    assert list(broken_outside({}, Counter({"k": 1}), Counter())) == [
        "k was sent without the ledger"
    ]
