"""Handlers of pipelines: which of them runs next, and what follows when a run of one ends.

When a run of a handler does not succeed, its events are released, or kept for the run that follows.
The handler is then free, or blocked, or has that run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onward.core.delivery import Ending, RetryStart, events_when, retry_start
from onward.core.instant import DAY, SECOND
from onward.core.retry import Retry
from onward.core.run import Reason, RunState
from onward.core.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.effect import EffectState
    from onward.core.instant import Duration, Instant

REPAIR_BUDGET = 3
"""After so many failures in a row other code is not tried by itself: an operator must decide."""

TRANSIENT = Retry(attempts=5, delay="10s", factor=2, max_delay="10m")
"""How often, and after how long, a handler is run again that raised `Retryable`."""

MIN_WAKE: Duration = 30 * SECOND
MAX_WAKE: Duration = DAY


class HandlerKind(StrEnum):
    """What a handler is; the values are stored in the database."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


def clamp_wake(
    wanted: Duration, *, shortest: Duration = MIN_WAKE, longest: Duration = MAX_WAKE
) -> Duration:
    """Return how long from now a consumer wakes that asked for `wanted`."""
    return min(max(wanted, shortest), longest)


# --- which handler runs next ----------------------------------------------------------------------


class DueHandler(Value):
    """A handler, or one key of it, that has work while no run of its lane is open.

    `oldest` is when its oldest pending event was published, None if no event is pending.
    """

    handler: str
    key: str
    kind: HandlerKind
    lane: str
    oldest: Instant | None = None
    is_woken: bool = False

    @property
    def has_work(self) -> bool:
        """Whether a run would find anything: a consumer needs an event, or its wake time."""
        return self.kind is HandlerKind.PRODUCER or self.oldest is not None or self.is_woken


def chosen(candidates: Iterable[DueHandler]) -> list[DueHandler]:
    """Return at most one candidate for each lane: consumers first, the oldest event first."""
    best: dict[str, DueHandler] = {}
    for each in candidates:
        if each.has_work and (each.lane not in best or _rank(each) < _rank(best[each.lane])):
            best[each.lane] = each
    return sorted(best.values(), key=_rank)


def _rank(each: DueHandler) -> tuple[bool, bool, Instant, str, str]:
    is_producer = each.kind is HandlerKind.PRODUCER
    return is_producer, each.oldest is None, each.oldest or 0, each.handler, each.key


# --- what follows when a run ends -----------------------------------------------------------------


class Sequel(Value):
    """What follows from the end of a handler's run.

    Attributes:
        events: What happens to the events that it has reserved.
        start: Where the run begins that follows it at once, or after a delay; None: none does.
        blocks: Whether the handler is blocked until an operator, other code or a verdict frees it.
        at_fault: Whether the end counts against the events.
    """

    events: Ending
    start: RetryStart | None = None
    blocks: bool = False
    at_fault: bool = False


def sequel(
    state: RunState,
    reason: Reason | None,
    effect: EffectState | None,
    *,
    will_retry: bool = False,
) -> Sequel:
    """Return what follows when a run of a handler comes to `state`, with its effect in `effect`.

    `will_retry` says that the failure was transient, and that it may be tried again.
    """
    events = events_when(state, effect)
    if state not in (RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT):
        return Sequel(events)
    begin = retry_start(effect)
    if not isinstance(begin, RetryStart):  # the effect may have happened: a verdict frees it
        return Sequel(events, blocks=True)
    owes_next = begin is RetryStart.AT_NEXT
    if will_retry:
        return Sequel(events, begin)
    if state is RunState.FAILED:
        at_fault = reason in (Reason.LOGIC, Reason.INTERNAL, Reason.CRASHED)
        return Sequel(events, blocks=True, at_fault=at_fault)
    return Sequel(events, begin if owes_next else None)


def sequel_of_verdict(effect: EffectState) -> Sequel:
    """Return what follows when the effect of a run that has ended is settled by a verdict."""
    begin = retry_start(effect)
    if not isinstance(begin, RetryStart):
        return Sequel(Ending.KEEP, blocks=True)
    if begin is RetryStart.AT_NEXT:
        return Sequel(Ending.KEEP, begin)
    return Sequel(Ending.RELEASE)


def may_try_code(failures: int) -> bool:
    """Return whether a blocked handler is run again by itself when its code has changed."""
    return failures < REPAIR_BUDGET
