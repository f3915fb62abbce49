"""Retry: how often, how long between, and for which errors."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import MINUTE, SECOND
from onward.core.retry import (
    ONCE,
    RECONCILING,
    REPAIRS,
    STEPS,
    Again,
    AttemptFailure,
    GiveUp,
    Retry,
    Why,
    decide,
    error_name,
    failure,
)
from onward.errors import BadInput, InvariantBroken


class Flaky(Exception):
    pass


class Rare(Flaky):
    pass


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (10_000, 60)]
)
def test_the_wait_grows_by_its_factor_up_to_the_most(attempt: int, seconds: int) -> None:
    assert STEPS.delay_after(attempt, randomness=0.0) == seconds * SECOND


def test_a_factor_of_one_waits_equally_long() -> None:
    policy = Retry(delay="5s", factor=1)

    assert (
        policy.delay_after(1, randomness=0.0)
        == policy.delay_after(10_000, randomness=0.0)
        == 5 * SECOND
    )


def test_no_first_wait_is_no_wait() -> None:
    assert Retry(delay=0).delay_after(7, randomness=1.0) == 0


def test_first_and_most_may_be_equal() -> None:
    assert Retry(delay="1m", max_delay="1m").delay_after(1, randomness=0.0) == MINUTE


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(1, 1e9), st.floats(0, 1))
def test_jitter_only_lengthens_and_by_no_more_than_it_says(
    attempt: int, randomness: float, factor: float, jitter: float
) -> None:
    policy = Retry(attempts=None, factor=factor, jitter=jitter)
    exact = policy.delay_after(attempt, randomness=0.0)

    assert SECOND <= exact <= MINUTE
    assert exact <= policy.delay_after(attempt, randomness=randomness) <= exact + exact * jitter


@given(st.integers(1, 500), st.floats(1, 100))
def test_a_later_attempt_never_waits_less(attempt: int, factor: float) -> None:
    policy = Retry(factor=factor)

    assert policy.delay_after(attempt, randomness=0.0) <= policy.delay_after(
        attempt + 1, randomness=0.0
    )


@pytest.mark.parametrize(("attempt", "randomness"), [(0, 0.0), (1, -0.1), (1, 1.1)])
def test_a_wait_that_cannot_be_asked_for_is_a_bug(attempt: int, randomness: float) -> None:
    with pytest.raises(InvariantBroken):
        STEPS.delay_after(attempt, randomness=randomness)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"attempts": 0}, "attempts=0"),
        ({"attempts": -1}, "attempts=-1"),
        ({"attempts": True}, "attempts=True"),
        ({"attempts": 2.5}, "attempts=2.5"),
        ({"factor": 0.5}, "factor=0.5"),
        ({"factor": float("nan")}, "factor=nan"),
        ({"factor": float("inf")}, "factor=inf"),
        ({"factor": "2"}, "factor='2'"),
        ({"factor": True}, "factor=True"),
        ({"jitter": -0.1}, "jitter=-0.1"),
        ({"jitter": 1.5}, "from 0 to 1"),
        ({"delay": "never"}, "'never'"),
        ({"max_delay": -1}, "-1"),
        ({"delay": "2m"}, "max_delay=1m"),
        ({"only": (int,)}, "int"),
        ({"only": (3,)}, "a value of type int"),
        ({"never": ""}, "a value of type str"),
        ({"within": 0}, "within=0"),
        ({"within": -1}, "-1"),
        ({"within": "soon"}, "'soon'"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=re.escape(named)):
        Retry(**options)


def test_policies_are_equal_when_they_decide_alike() -> None:
    assert Retry(delay="60s", only=(Flaky,)) == Retry(
        delay=timedelta(minutes=1), only=(error_name(Flaky),)
    )
    assert Retry(delay="1s") != Retry(delay="2s")
    assert Retry(never=Flaky) != Retry()
    assert Retry(within="60s") == Retry(within=timedelta(minutes=1)) != Retry()
    assert hash(Retry(delay=1)) == hash(Retry())


def test_a_policy_changed_in_one_thing_keeps_its_waits() -> None:
    assert replace(Retry(delay=5), attempts=9).delay_after(1, randomness=0.0) == 5 * SECOND


def test_a_policy_shows_what_was_given() -> None:
    assert repr(Retry(delay="2s")) == (
        "Retry(attempts=3, delay='2s', factor=2.0, max_delay='1m', jitter=0.1, only=(), never=(), "
        "within=None)"
    )


def test_errors_are_named_so_that_storage_keeps_them() -> None:
    assert error_name(ValueError) == "ValueError"
    assert error_name(Flaky) == f"{__name__}.Flaky"
    assert error_name("some.Error") == "some.Error"


@pytest.mark.parametrize(
    ("policy", "attempt", "error", "answer"),
    [
        (STEPS, 1, failure(Flaky), Again(SECOND)),
        (STEPS, 3, failure(Flaky), GiveUp(Why.EXHAUSTED)),
        (ONCE, 1, failure(Flaky), GiveUp(Why.EXHAUSTED)),
        (Retry(attempts=None), 10_000, failure(Flaky), Again(MINUTE)),
        (STEPS, 1, failure(Flaky, fatal=True), GiveUp(Why.FATAL)),
        (STEPS, 1, failure(Flaky, retryable=True, after=7), Again(7)),
        (STEPS, 1, failure(Flaky, retryable=True, after=0), Again(0)),
        (STEPS, 3, failure(Flaky, retryable=True, after=7), GiveUp(Why.EXHAUSTED)),
        (Retry(only=Flaky), 1, failure(Rare), Again(SECOND)),
        (Retry(only=(Rare,)), 1, failure(Flaky), GiveUp(Why.NOT_LISTED)),
        (Retry(only=(Rare,)), 1, failure(Flaky, retryable=True), Again(SECOND)),
        (Retry(never=[Flaky]), 1, failure(Rare), GiveUp(Why.NEVER)),
        (Retry(never=(Rare,)), 1, failure(Flaky), Again(SECOND)),
        (Retry(only=Flaky, never=Rare), 1, failure(Rare), GiveUp(Why.NEVER)),
        (Retry(only="OSError"), 1, failure(ConnectionResetError), Again(SECOND)),
        (STEPS, 1, AttemptFailure(), Again(SECOND)),
    ],
)
def test_a_policy_decides_by_error_and_attempt(
    policy: Retry, attempt: int, error: AttemptFailure, answer: Again | GiveUp
) -> None:
    assert decide(policy, attempt, error, randomness=0.0) == answer


def test_chance_lengthens_the_wait_that_was_decided() -> None:
    assert decide(STEPS, 1, failure(Flaky), randomness=1.0) == Again(SECOND + SECOND // 10)


@pytest.mark.parametrize(
    ("elapsed", "error", "answer"),
    [
        (0, failure(Flaky), Again(SECOND)),
        (8 * SECOND, failure(Flaky), Again(SECOND)),
        (9 * SECOND, failure(Flaky), GiveUp(Why.TOO_LATE)),
        (11 * SECOND, failure(Flaky), GiveUp(Why.TOO_LATE)),
        (0, failure(Flaky, retryable=True, after=10 * SECOND), GiveUp(Why.TOO_LATE)),
        (9 * SECOND, failure(Flaky, retryable=True, after=7), Again(7)),
        (11 * SECOND, failure(Flaky, fatal=True), GiveUp(Why.FATAL)),
    ],
)
def test_an_attempt_that_would_begin_after_the_time_for_all_is_not_made(
    elapsed: int, error: AttemptFailure, answer: Again | GiveUp
) -> None:
    policy = Retry(attempts=None, within="10s")

    assert decide(policy, 1, error, randomness=0.0, elapsed=elapsed) == answer


@given(st.integers(1, 50), st.floats(0, 1), st.integers(0, 100 * SECOND))
def test_what_is_tried_again_begins_in_time(attempt: int, randomness: float, elapsed: int) -> None:
    answer = decide(
        Retry(attempts=None, within="50s"), attempt, AttemptFailure(), randomness, elapsed
    )

    if isinstance(answer, Again):
        assert elapsed + answer.after < 50 * SECOND
    else:
        assert answer == GiveUp(Why.TOO_LATE)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (RECONCILING, [10, 20, 40, 80]),
        (REPAIRS, [0, 0]),
    ],
)
def test_a_preset_waits_as_the_design_says(policy: Retry, waits: list[int]) -> None:
    answers = [
        decide(policy, n, AttemptFailure(), randomness=0.0) for n in range(1, len(waits) + 2)
    ]

    assert answers == [*(Again(wait * SECOND) for wait in waits), GiveUp(Why.EXHAUSTED)]
