"""Effects in simulated worlds, and bugs that are put in on purpose: each must be seen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.decision import Moved
from onward.core.effect import EffectState, machine, window
from onward.core.value import changed
from onward.engine.database_time import DatabaseTime
from onward.runtime.attempts.sender import SendAttempt
from onward.runtime.execution.ledger import EffectEnd, Ledger
from tests.simulation.simulator import Failed, Simulation
from tests.simulation.simulator.ledger_rules import (
    EffectSeen,
    broken_ledger,
    broken_outside,
    doubted,
    unsendable,
)
from tests.simulation.simulator.line import Weather
from tests.simulation.simulator.plan import SEATS, Crash, Jump, Outage, Plan, Stop, draw_plan
from tests.simulation.simulator.purchases import KEY_SECONDS, purchases

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.decision import Decision
    from onward.core.effect import LedgerEntry, Lost, RaisedNotApplied, Terms
    from onward.core.instant import Instant
    from onward.runtime.body.effects import EffectCall

MAX_SEEDS = 80
CALM = Weather(delay=0.0, hints_lost=0.0, answers_lost=0.0, clears=0.0)


def test_whatever_happens_the_ledger_and_the_outside_agree() -> None:
    seen: set[str] = set()
    for seed in range(25):
        trace = Simulation(seed, draw_plan(seed, (purchases.name,))).run()
        seen |= {f"verdict {event.detail[2]}" for event in trace.of("verdict")}
        seen |= {f"send {min(event.detail[1], 2)}" for event in trace.of("send")}
        rows = [row for event in trace.of("commit") for row in event.detail if row[0] == "effect"]
        seen |= {EffectSeen._make(row[2]).state for row in rows}
    verdicts = {"verdict applied", "verdict not_applied", "verdict skip", "verdict ask_again"}
    states = {*EffectState} - {EffectState.WITHDRAWN}  # none of these runs is cancelled
    assert seen >= {*states, *verdicts, "verdict True", "verdict False", "send 1", "send 2"}


# --- the zoo --------------------------------------------------------------------------------------


def how_it_fails(plan: Callable[[int], Plan | None] = lambda _: None, *, first: int = 0) -> str:
    """Return what the first world says that sees the bug which is in.

    All worlds are tried, but from `first` on, which is where it was seen last time: the worlds
    before it take a minute in all.
    """
    for seed in (*range(first, MAX_SEEDS), *range(first)):
        world = Simulation(seed, plan(seed) or draw_plan(seed, (purchases.name,)))
        try:
            world.run()
        except Failed as failed:
            return str(failed)
    return "not seen"


def test_an_effect_that_is_sent_again_because_its_worker_vanished_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hopefully(
        effect: LedgerEntry, _: object, terms: Terms, now: Instant, **__: object
    ) -> LedgerEntry:
        return changed(effect, state=EffectState.FAILED, due=now)

    monkeypatch.setattr("onward.core.effect.machine._uncertain", hopefully)
    assert "times, and sent" in how_it_fails()


def test_a_no_that_counts_at_once_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.core.effect.machine._proof_opens", lambda *_: None)
    assert "too early" in how_it_fails()


def test_a_send_before_its_intent_is_written_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hastily(self: Ledger, call: EffectCall) -> EffectEnd | None:
        call.effect = changed(call.effect, state=EffectState.IN_FLIGHT, attempt=1)
        frame = window(call.terms, at=self._host.clock.monotonic())
        return await self._settle(call, self._host.sender.send(self, call, frame))

    monkeypatch.setattr(Ledger, "_send", hastily)
    assert "the ledger does not know of it" in how_it_fails()


def test_a_window_that_counts_from_before_the_commit_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Weather(delay=0.5, hints_lost=0.0, answers_lost=0.0, clears=0.0)
    monkeypatch.setattr("onward.runtime.execution.ledger._kept", lambda effect, *_: effect)
    assert "too early" in how_it_fails(
        lambda _: Plan((purchases.name,) * 3, 100, 1000, slow), first=12
    )


def test_a_window_that_ends_early_where_the_clock_was_put_back_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def put_back(seed: int) -> Plan:
        crash = Crash(seed % SEATS, 60 + 2 * seed, is_noticed=True, gone=1.0)
        jumps = (Jump(1.0, -20.0),)
        return Plan((purchases.name,) * 2, 100, 0, CALM, crashes=(crash,), jumps=jumps)

    class Forward(DatabaseTime):
        def learn(self, at: Instant, asked: int) -> None:
            if at > self.now():
                super().learn(at, asked)

    # A worker follows the clock back, and does not trust that it has: each alone is enough.
    monkeypatch.setattr("onward.runtime.worker.session.DatabaseTime", Forward)
    monkeypatch.setattr("onward.runtime.execution.ledger._by_our_time", lambda effect, *_: effect)
    assert "too early" in how_it_fails(put_back, first=11)


def test_a_send_by_a_worker_that_stood_still_and_does_not_look_at_the_clock_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def standing_still(seed: int) -> Plan:
        stops = tuple(Stop(seat, 40 + seed, 40) for seat in range(SEATS))[seed % SEATS :]
        return Plan((purchases.name,), 100, 0, CALM, stops=stops[:1])

    monkeypatch.setattr(SendAttempt, "_check_start", lambda *_: None)
    monkeypatch.setattr("onward.sdk.effect.check_key", lambda sending: sending.key)
    monkeypatch.setattr("onward.runtime.attempts.send_window.check_key", lambda _: None)
    assert ", but it is " in how_it_fails(standing_still, first=59)


def test_a_no_of_a_later_send_that_is_taken_for_one_of_the_first_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hastily(effect: LedgerEntry, terms: Terms, now: Instant) -> Decision[LedgerEntry]:
        match sent(effect, terms, now):
            case Moved(to):
                return Moved(changed(to, in_doubt=False))
            case other:
                return other

    def refused_and_away(seed: int) -> Plan:
        outage = Outage(12.0 + seed % 20, KEY_SECONDS + 1)  # long enough to forget a key
        return Plan((purchases.name,) * 6, 100, 0, CALM, outages=(outage,))

    sent = machine._sent
    monkeypatch.setattr(machine, "_sent", hastily)
    monkeypatch.setattr("tests.simulation.simulator.purchases.TROUBLES", ("reply lost", "refused"))
    assert "times, and sent" in how_it_fails(refused_and_away)


def test_a_key_that_is_held_to_be_known_for_ever_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        machine, "_is_known", lambda _, terms, __: terms.idempotency_window is not None
    )
    assert "its key may be forgotten" in how_it_fails(first=17)


def test_an_uncertain_effect_reported_as_not_applied_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def carelessly(
        effect: LedgerEntry, fact: RaisedNotApplied | Lost, terms: Terms, now: Instant, **how: Any
    ) -> LedgerEntry:
        to = uncertain(effect, fact, terms, now, **how)
        is_doubted = terms.idempotency_window is not None and to.state is EffectState.INDETERMINATE
        return changed(to, state=EffectState.FAILED) if is_doubted else to

    uncertain = machine._uncertain
    monkeypatch.setattr(machine, "_uncertain", carelessly)
    assert "was applied 1 times" in how_it_fails(first=23)


# --- the rules ------------------------------------------------------------------------------------

ROW = EffectSeen("k", "run", "charge", "needs_reconcile", 3, 1, 1, 100, None, None)
AGAIN = ROW._replace(state="in_flight", version=4, attempt=2)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (ROW, None, "vanished"),
        (None, ROW, "from nowhere"),
        (ROW, AGAIN, "went from needs_reconcile"),
        (ROW._replace(known_until=99), AGAIN._replace(known_until=100), "its key was known"),
        (ROW._replace(state="indeterminate"), AGAIN, "went from indeterminate"),
        (ROW._replace(state="applied"), ROW._replace(version=4), "went from applied"),
        (ROW, ROW._replace(state="applied"), "from version 3 to 3"),
        (ROW, ROW._replace(version=4, attempt=2), "another attempt"),
        (ROW, ROW._replace(state="failed", version=4), "too early"),
    ],
)
def test_a_ledger_that_breaks_a_rule_is_reported(
    old: EffectSeen | None, new: EffectSeen | None, why: str
) -> None:
    before, after = ({} if row is None else {"k": row} for row in (old, new))
    assert any(why in rule for rule in broken_ledger(before, after, 99))


def test_a_ledger_that_keeps_the_rules_is_let_pass() -> None:
    failed = ROW._replace(state="failed", version=4)
    assert list(broken_ledger({"k": ROW}, {"k": failed}, 100)) == []
    known, again = (row._replace(known_until=100) for row in (ROW, AGAIN))
    assert list(broken_ledger({"k": known}, {"k": again}, 100)) == []
    assert list(broken_ledger({"k": ROW}, {"k": failed}, 99, {"k"})) == []
    assert list(broken_ledger({}, {"k": ROW._replace(state="in_flight", version=1)}, 0)) == []


@pytest.mark.parametrize(
    ("row", "times", "why"),
    [
        (None, 1, "does not know"),
        (ROW._replace(state="applied"), 1, "it is applied"),
        (ROW._replace(state="applied", known_until=98), 1, "it is applied"),
        (ROW._replace(state="applied", known_until=99), 1, None),
        (ROW._replace(known_until=99), 2, "intended 1 times"),
        (ROW, 2, "intended 1 times"),
        (ROW, 1, None),
    ],
)
def test_what_may_not_be_sent_is_reported(
    row: EffectSeen | None, times: int, why: str | None
) -> None:
    told = unsendable(row, times, 99)
    assert told == why or (why is not None and told is not None and why in told)


def test_what_is_in_doubt_is_sent_again_only_under_a_key_that_is_known() -> None:
    row = ROW._replace(attempt=2, known_until=99)

    assert unsendable(row, 2, 99, is_doubted=True) is None
    assert unsendable(row, 2, 100) is None  # there was proof
    assert unsendable(row, 2, 100, is_doubted=True) == (
        "it may have happened, and its key may be forgotten"
    )


def test_what_is_in_doubt_is_known_by_the_state_from_which_it_was_sent() -> None:
    on_doubt = doubted(set(), {"k": ROW}, {"k": AGAIN})
    third = AGAIN._replace(version=6, attempt=3)

    assert on_doubt == {"k"}
    assert doubted(on_doubt, {"k": AGAIN}, {"k": AGAIN._replace(state="applied")}) == {"k"}
    assert doubted(on_doubt, {"k": AGAIN._replace(state="failed")}, {"k": third}) == set()


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
