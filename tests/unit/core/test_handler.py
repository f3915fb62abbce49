"""Handlers of pipelines: which runs next, and what follows from the end of a run."""

from __future__ import annotations

from itertools import product

import pytest

from onward.core.delivery import Ending, RetryStart
from onward.core.effect import UNCERTAIN, EffectState
from onward.core.handler import (
    MAX_WAKE,
    MIN_WAKE,
    REPAIR_BUDGET,
    DueHandler,
    HandlerKind,
    chosen,
    clamp_wake,
    may_try_code,
    sequel,
    sequel_of_verdict,
)
from onward.core.run import REASONS, Reason, RunState

EFFECTS: list[EffectState | None] = [None, *EffectState]
MAY_HAVE_HAPPENED = UNCERTAIN | {EffectState.APPLIED, EffectState.SKIPPED}
BAD_ENDS = [
    (state, reason)
    for state in (RunState.FAILED, RunState.CANCELLED, RunState.TIMED_OUT)
    for reason in REASONS[state]
]


def a_handler(
    name: str, oldest: int | None = None, *, lane: str = "mail", kind: str = "consumer"
) -> DueHandler:
    return DueHandler(name, "", HandlerKind(kind), lane, oldest)


@pytest.mark.parametrize(
    ("end", "effect", "will_retry"), list(product(BAD_ENDS, EFFECTS, (False, True)))
)
def test_events_are_released_exactly_if_their_effect_cannot_have_happened(
    end: tuple[RunState, Reason | None], effect: EffectState | None, will_retry: bool
) -> None:
    follows = sequel(*end, effect, will_retry=will_retry)

    assert (follows.events is Ending.KEEP) == (effect in MAY_HAVE_HAPPENED)


@pytest.mark.parametrize(
    ("end", "effect", "will_retry"), list(product(BAD_ENDS, EFFECTS, (False, True)))
)
def test_kept_events_have_a_run_that_follows_or_block_their_handler(
    end: tuple[RunState, Reason | None], effect: EffectState | None, will_retry: bool
) -> None:
    follows = sequel(*end, effect, will_retry=will_retry)

    if follows.events is Ending.KEEP:
        assert (follows.start is RetryStart.AT_NEXT) != follows.blocks
    assert follows.start is None or not follows.blocks


@pytest.mark.parametrize(("end", "effect"), list(product(BAD_ENDS, sorted(UNCERTAIN))))
def test_an_uncertain_effect_blocks_whatever_ended_its_run(
    end: tuple[RunState, Reason | None], effect: EffectState
) -> None:
    follows = sequel(*end, effect, will_retry=True)

    assert (follows.blocks, follows.start) == (True, None)


def test_a_cancel_after_the_effect_is_followed_by_next() -> None:
    follows = sequel(RunState.CANCELLED, Reason.OPERATOR, EffectState.APPLIED)

    assert (follows.start, follows.blocks) == (RetryStart.AT_NEXT, False)


@pytest.mark.parametrize(
    ("reason", "at_fault"),
    [(Reason.LOGIC, True), (Reason.CRASHED, True), (Reason.TRANSIENT, False)],
)
def test_a_failure_that_is_not_retried_blocks_and_may_count_against_its_events(
    reason: Reason, at_fault: bool
) -> None:
    follows = sequel(RunState.FAILED, reason, None)

    assert (follows.blocks, follows.at_fault) == (True, at_fault)


@pytest.mark.parametrize(
    ("effect", "events", "start"),
    [
        (EffectState.APPLIED, Ending.KEEP, RetryStart.AT_NEXT),
        (EffectState.SKIPPED, Ending.KEEP, RetryStart.AT_NEXT),
        (EffectState.FAILED, Ending.RELEASE, None),
    ],
)
def test_a_verdict_frees_a_handler(
    effect: EffectState, events: Ending, start: RetryStart | None
) -> None:
    follows = sequel_of_verdict(effect)

    assert (follows.events, follows.start, follows.blocks) == (events, start, False)


def test_a_question_to_the_reconciler_frees_nothing() -> None:
    assert sequel_of_verdict(EffectState.NEEDS_RECONCILE).blocks


def test_a_lane_runs_consumers_before_producers_and_the_oldest_event_first() -> None:
    due = [a_handler("read", kind="producer"), a_handler("late", 9), a_handler("early", 3)]

    assert [each.handler for each in chosen(due)] == ["early"]
    assert [each.handler for each in chosen(due[:1])] == ["read"]


def test_a_consumer_that_wakes_runs_before_a_producer() -> None:
    woken = DueHandler("wake", "", HandlerKind.CONSUMER, "mail", is_woken=True)

    assert chosen([a_handler("a-producer", kind="producer"), woken]) == [woken]


def test_lanes_run_beside_each_other() -> None:
    due = [a_handler("a", 2, lane="one"), a_handler("b", 1, lane="two")]

    assert [each.handler for each in chosen(due)] == ["b", "a"]


def test_a_consumer_without_events_runs_only_when_it_wakes() -> None:
    idle = a_handler("add")
    woken = DueHandler("add", "", HandlerKind.CONSUMER, "mail", is_woken=True)

    assert chosen([idle]) == []
    assert chosen([woken]) == [woken]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [(0, MIN_WAKE), (-5, MIN_WAKE), (MAX_WAKE + 1, MAX_WAKE), (MIN_WAKE + 7,) * 2],
)
def test_a_wake_time_is_clamped(wanted: int, given: int) -> None:
    assert clamp_wake(wanted) == given


def test_other_code_is_tried_until_the_budget_is_used_up() -> None:
    assert [may_try_code(failures) for failures in range(REPAIR_BUDGET + 1)] == [
        *[True] * REPAIR_BUDGET,
        False,
    ]
