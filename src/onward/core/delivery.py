"""The delivery: an event as one consumer sees it, and how far a consumer run came.

An event that a run reserved ends exactly once with respect to it: consumed, skipped or released.
It is never released while the effect that was made of it may have happened.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias, assert_never

from onward.core.decision import Decision, Ignored, Moved, Refused
from onward.core.effect import UNCERTAIN, EffectState
from onward.core.replay.record import RecordKind, RecordState
from onward.core.run import OPEN, Reason, RunKind, RunState
from onward.core.value import Value, changed

MAX_RELEASES = 5


class DeliveryState(StrEnum):
    """How an event stands with one consumer; the values are the words in the database."""

    PENDING = "pending"
    RESERVED = "reserved"
    CONSUMED = "consumed"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """Why an event was skipped."""

    EFFECT_SKIPPED = "effect_skipped"
    OPERATOR = "operator"
    QUARANTINED = "quarantined"


class Delivery(Value):
    """An event in the eyes of one consumer.

    `attempt` rises each time it becomes pending again; `releases` counts only the times that a run
    gave it back for a fault which the event may have caused.
    """

    state: DeliveryState = DeliveryState.PENDING
    run: str | None = None
    attempt: int = 1
    releases: int = 0
    reason: SkipReason | None = None


# --- facts ----------------------------------------------------------------------------------------


class Reserved(Value):
    """A run's preparation pins the event."""

    run: str


class Consumed(Value):
    """The run that holds it has committed."""

    run: str


class ConsumedWithoutEffect(Value):
    """The run that holds it has committed, after an operator skipped its effect."""

    run: str


class ReservationReleased(Value):
    """The run that holds it gives it back; `at_fault` if the event may be at fault."""

    run: str
    at_fault: bool = True


class HandedOver(Value):
    """A retry takes the event over from the run that it follows."""

    run: str
    to: str


class SkippedByOperator(Value):
    """An operator takes the event out."""


class Replayed(Value):
    """An operator wants the event to be handled again."""


Fact: TypeAlias = (
    Reserved
    | Consumed
    | ConsumedWithoutEffect
    | ReservationReleased
    | HandedOver
    | SkippedByOperator
    | Replayed
)


# --- the machine ----------------------------------------------------------------------------------


def advance(delivery: Delivery, fact: Fact) -> Decision[Delivery]:
    """Return the delivery after `fact`; what a run reports counts only if the run holds it."""
    match fact:
        case Reserved(run):
            return _reserved(delivery, run)
        case SkippedByOperator():
            return _skipped(delivery)
        case Replayed():
            return _replayed(delivery)
        case (
            Consumed(run) | ConsumedWithoutEffect(run) | ReservationReleased(run) | HandedOver(run)
        ):
            if delivery.state is DeliveryState.RESERVED and delivery.run == run:
                return Moved(_let_go(delivery, fact))
            return _not_held(delivery, fact)
    assert_never(fact)


def _reserved(delivery: Delivery, run: str) -> Decision[Delivery]:
    if delivery.state is DeliveryState.PENDING:
        return Moved(changed(delivery, state=DeliveryState.RESERVED, run=run))
    if delivery.state is DeliveryState.RESERVED and delivery.run == run:
        return Ignored("the run already holds it")
    return Refused(f"it is {delivery.state}")


def _skipped(delivery: Delivery) -> Decision[Delivery]:
    match delivery.state:
        case DeliveryState.PENDING:
            return Moved(_set_aside(delivery, SkipReason.OPERATOR))
        case DeliveryState.RESERVED:
            return Refused("a run holds it; cancel that run first")
        case DeliveryState.CONSUMED | DeliveryState.SKIPPED:
            return Ignored(f"it is {delivery.state}")
    assert_never(delivery.state)


def _replayed(delivery: Delivery) -> Decision[Delivery]:
    if delivery.state in (DeliveryState.PENDING, DeliveryState.RESERVED):
        return Ignored(f"it is {delivery.state} and will be handled")
    return Moved(Delivery(attempt=delivery.attempt + 1))


def _let_go(
    delivery: Delivery, fact: Consumed | ConsumedWithoutEffect | ReservationReleased | HandedOver
) -> Delivery:
    match fact:
        case Consumed():
            return changed(delivery, state=DeliveryState.CONSUMED)
        case ConsumedWithoutEffect():
            return _set_aside(delivery, SkipReason.EFFECT_SKIPPED)
        case HandedOver(to=to):
            return changed(delivery, run=to)
        case ReservationReleased(at_fault=at_fault):
            releases = delivery.releases + at_fault
            if releases >= MAX_RELEASES:
                return _set_aside(changed(delivery, releases=releases), SkipReason.QUARANTINED)
            return Delivery(attempt=delivery.attempt + 1, releases=releases)
    assert_never(fact)


def _set_aside(delivery: Delivery, reason: SkipReason) -> Delivery:
    return changed(delivery, state=DeliveryState.SKIPPED, reason=reason)


def _not_held(
    delivery: Delivery, fact: Consumed | ConsumedWithoutEffect | ReservationReleased | HandedOver
) -> Decision[Delivery]:
    match delivery.state, fact:
        case DeliveryState.CONSUMED, Consumed(run) if run == delivery.run:
            return Ignored("it was consumed by this very run")
        case DeliveryState.SKIPPED, ConsumedWithoutEffect(run) | ReservationReleased(run) if (
            run == delivery.run
        ):
            return Ignored("it was set aside by this very run")
        case DeliveryState.RESERVED, HandedOver(to=to) if to == delivery.run:
            return Ignored("the retry already holds it")
        case _:
            return Refused(f"it is {delivery.state} and not held by run {fact.run}")


def may_overwrite(state: DeliveryState) -> bool:
    """Return whether publishing the same id again may change what this consumer will see."""
    return state is DeliveryState.PENDING


def may_be_at_fault(reason: Reason | None) -> bool:
    """Return whether a run that stopped for `reason` counts against the events it held.

    An outage, a missing approval or an operator's cancel is not the fault of an event.
    """
    return reason in (Reason.LOGIC, Reason.INTERNAL, Reason.CRASHED)


# --- how far a consumer run came ------------------------------------------------------------------


class Phase(StrEnum):
    """How far a consumer run came; it only moves forward."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    MUTATING = "mutating"
    MUTATED = "mutated"
    EMITTING = "emitting"
    COMMITTED = "committed"


PREPARE = "prepare"
NEXT = "next"
_ORDER = {phase: place for place, phase in enumerate(Phase)}


def phase_of(kind: str, phase: str | None) -> Phase | None:
    """Return how far a run has come, by its row; only consumers have phases."""
    if kind != RunKind.CONSUMER:
        return None
    return Phase.PREPARING if phase is None else Phase(phase)


def phase_after(phase: Phase, kind: RecordKind, name: str, state: RecordState) -> Phase:
    """Return how far a run has come once a record is written; other records change nothing."""
    match kind, name:
        case RecordKind.EFFECT, _:
            reached = Phase.MUTATING if state is RecordState.OPEN else Phase.MUTATED
        case RecordKind.STEP, name if name == PREPARE:
            reached = Phase.PREPARED if state is RecordState.SUCCEEDED else phase
        case RecordKind.STEP, name if name == NEXT:
            reached = Phase.COMMITTED if state is RecordState.SUCCEEDED else Phase.EMITTING
        case _:
            reached = phase
    return max(phase, reached, key=_ORDER.__getitem__)


# --- when a run stops -----------------------------------------------------------------------------


_NOT_SENT = (EffectState.PLANNED, EffectState.WITHDRAWN)


class Ending(StrEnum):
    """What happens to the events of a run that stops."""

    CONSUME = "consume"
    SKIP = "skip"
    RELEASE = "release"
    KEEP = "keep"


def events_when(state: RunState, effect: EffectState | None) -> Ending:
    """Return what happens to reserved events when their run comes to `state`.

    They are kept while the run is open, while its effect may have happened, and when it did but
    `next` is still owed: the retry takes them over. `effect` is None where none was chosen.
    """
    if state is RunState.SUCCEEDED:
        return Ending.SKIP if effect is EffectState.SKIPPED else Ending.CONSUME
    if state in OPEN:
        return Ending.KEEP
    if effect in (None, *_NOT_SENT, EffectState.FAILED):
        return Ending.RELEASE
    return Ending.KEEP


class RetryStart(StrEnum):
    """Where the retry of a consumer run begins."""

    FRESH = "fresh"
    AT_NEXT = "at_next"


def retry_start(effect: EffectState | None) -> RetryStart | Refused:
    """Return where a retry begins: fresh before the change outside, at `next` after it.

    Where nothing was changed outside, preparing again is safe, even if `next` was what failed.
    """
    if effect in UNCERTAIN:
        return Refused("its effect is uncertain; resolve the effect first")
    if effect in (EffectState.APPLIED, EffectState.SKIPPED):
        return RetryStart.AT_NEXT
    return RetryStart.FRESH
