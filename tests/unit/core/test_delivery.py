"""The delivery: a reserved event ends exactly once, and a phase only moves forward."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.delivery import (
    MAX_RELEASES,
    NEXT,
    PREPARE,
    Consumed,
    ConsumedWithoutEffect,
    Delivery,
    DeliveryState,
    Ending,
    Fact,
    HandedOver,
    Phase,
    Replayed,
    ReservationReleased,
    Reserved,
    RetryStart,
    SkippedByOperator,
    SkipReason,
    advance,
    events_when,
    may_be_at_fault,
    may_overwrite,
    phase_after,
    retry_start,
)
from onward.core.effect import UNCERTAIN, EffectState
from onward.core.replay import Record, RecordKind, RecordState
from onward.core.run import OPEN, Reason, RunState

PENDING = Delivery()
MINE = Delivery(DeliveryState.RESERVED, run="me")
THEIRS = Delivery(DeliveryState.RESERVED, run="them")
CONSUMED = Delivery(DeliveryState.CONSUMED, run="me")
SKIPPED = Delivery(DeliveryState.SKIPPED, run="me", reason=SkipReason.EFFECT_SKIPPED)
DELIVERIES = {
    "pending": PENDING,
    "mine": MINE,
    "theirs": THEIRS,
    "consumed": CONSUMED,
    "skipped": SKIPPED,
}
FACTS: dict[str, Fact] = {
    "reserved": Reserved("me"),
    "consumed": Consumed("me"),
    "effect skipped": ConsumedWithoutEffect("me"),
    "released": ReservationReleased("me"),
    "handed over": HandedOver("me", to="them"),
    "skipped": SkippedByOperator(),
    "replayed": Replayed(),
}
MOVES: dict[tuple[str, str], Delivery] = {
    ("pending", "reserved"): MINE,
    ("mine", "consumed"): CONSUMED,
    ("mine", "effect skipped"): SKIPPED,
    ("mine", "released"): Delivery(attempt=2, releases=1),
    ("mine", "handed over"): THEIRS,
    ("pending", "skipped"): Delivery(DeliveryState.SKIPPED, reason=SkipReason.OPERATOR),
    ("consumed", "replayed"): Delivery(attempt=2),
    ("skipped", "replayed"): Delivery(attempt=2),
}
KNOWN = {
    ("mine", "reserved"),
    ("consumed", "consumed"),
    ("skipped", "effect skipped"),
    ("skipped", "released"),
    ("theirs", "handed over"),
    ("consumed", "skipped"),
    ("skipped", "skipped"),
    ("pending", "replayed"),
    ("mine", "replayed"),
    ("theirs", "replayed"),
}


@pytest.mark.parametrize(("delivery", "fact"), list(product(DELIVERIES, FACTS)))
def test_every_fact_about_every_delivery_is_decided(delivery: str, fact: str) -> None:
    decision = advance(DELIVERIES[delivery], FACTS[fact])

    if (delivery, fact) in MOVES:
        assert decision == Moved(MOVES[delivery, fact])
    elif (delivery, fact) in KNOWN:
        assert isinstance(decision, Ignored)
    else:
        assert isinstance(decision, Refused)


def test_an_event_released_five_times_is_quarantined() -> None:
    delivery = PENDING
    for _ in range(MAX_RELEASES):
        delivery = to(advance(delivery, Reserved("me")))
        delivery = to(advance(delivery, ReservationReleased("me")))

    assert (delivery.state, delivery.reason) == (DeliveryState.SKIPPED, SkipReason.QUARANTINED)
    assert delivery.releases == MAX_RELEASES


def test_releases_that_are_not_its_fault_do_not_quarantine_an_event() -> None:
    delivery = PENDING
    for _ in range(3 * MAX_RELEASES):
        delivery = to(advance(delivery, Reserved("me")))
        delivery = to(advance(delivery, ReservationReleased("me", at_fault=False)))

    assert delivery == Delivery(attempt=1 + 3 * MAX_RELEASES)


def to(decision: Decision[Delivery]) -> Delivery:
    assert isinstance(decision, Moved)
    return decision.to


@given(st.lists(st.sampled_from(sorted(FACTS)), max_size=40))
def test_what_a_run_ended_only_an_operator_begins_again(facts: list[str]) -> None:
    delivery = PENDING
    for name in facts:
        match advance(delivery, FACTS[name]):
            case Moved(after):
                if delivery.state in (DeliveryState.CONSUMED, DeliveryState.SKIPPED):
                    assert name == "replayed"
                    assert after.attempt == delivery.attempt + 1
                assert (after.state is DeliveryState.RESERVED) <= (after.run is not None)
                delivery = after
            case _:
                pass


def test_only_a_pending_event_may_be_changed_by_publishing_it_again() -> None:
    assert [state for state in DeliveryState if may_overwrite(state)] == [DeliveryState.PENDING]


def test_an_outage_is_not_the_fault_of_an_event() -> None:
    assert {reason for reason in Reason if may_be_at_fault(reason)} == {
        Reason.LOGIC,
        Reason.INTERNAL,
        Reason.CRASHED,
    }
    assert not may_be_at_fault(None)


# --- phase ----------------------------------------------------------------------------------------


def a_record(kind: RecordKind, name: str, state: RecordState) -> Record:
    return Record(f":{name}#1", 1, None, kind, name, state)


RECORDS = [
    a_record(kind, name, state)
    for kind, name in [
        (RecordKind.STEP, PREPARE),
        (RecordKind.EFFECT, "charge"),
        (RecordKind.STEP, NEXT),
        (RecordKind.NOTE, "count"),
    ]
    for state in RecordState
]


@pytest.mark.parametrize(("phase", "record"), list(product(Phase, RECORDS)))
def test_no_record_moves_a_phase_back(phase: Phase, record: Record) -> None:
    order = list(Phase)

    after = phase_after(phase, record.kind, record.name, record.state)
    assert order.index(after) >= order.index(phase)


def test_the_records_of_a_consumer_take_it_through_all_phases() -> None:
    phase, seen = Phase.PREPARING, [Phase.PREPARING]
    for kind, name, state in [
        (RecordKind.STEP, PREPARE, RecordState.FAILED),
        (RecordKind.STEP, PREPARE, RecordState.SUCCEEDED),
        (RecordKind.EFFECT, "charge", RecordState.OPEN),
        (RecordKind.EFFECT, "charge", RecordState.FAILED),
        (RecordKind.STEP, NEXT, RecordState.FAILED),
        (RecordKind.STEP, NEXT, RecordState.SUCCEEDED),
    ]:
        phase = phase_after(phase, kind, name, state)
        seen.append(phase)

    assert seen == [Phase.PREPARING, *Phase]


def test_without_an_effect_a_consumer_goes_from_prepared_to_committed() -> None:
    phase = phase_after(Phase.PREPARED, RecordKind.STEP, NEXT, RecordState.SUCCEEDED)

    assert phase is Phase.COMMITTED


# --- when a run stops -----------------------------------------------------------------------------

EFFECTS: list[EffectState | None] = [None, *EffectState]


@pytest.mark.parametrize(("state", "effect"), list(product(RunState, EFFECTS)))
def test_events_are_never_released_while_their_effect_may_have_happened(
    state: RunState, effect: EffectState | None
) -> None:
    ending = events_when(state, effect)

    if state in OPEN:
        assert ending is Ending.KEEP
    elif state is RunState.SUCCEEDED:
        assert ending is (Ending.SKIP if effect is EffectState.SKIPPED else Ending.CONSUME)
    elif effect in (None, EffectState.PLANNED, EffectState.WITHDRAWN, EffectState.FAILED):
        assert ending is Ending.RELEASE
    else:
        assert ending is Ending.KEEP


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_retry_begins_fresh_before_the_change_outside_and_at_next_after_it(
    effect: EffectState | None,
) -> None:
    start = retry_start(effect)

    if effect in UNCERTAIN:
        assert isinstance(start, Refused)
    elif effect in (EffectState.APPLIED, EffectState.SKIPPED):
        assert start is RetryStart.AT_NEXT
    else:
        assert start is RetryStart.FRESH
