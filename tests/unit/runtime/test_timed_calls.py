"""Waits in memory follow a clock that is set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import DAY, HOUR, SECOND
from onward.runtime.body.calls import SignalCall

ASKED_AT = 1_000_000 * SECOND


def a_wait(delay: int | None = HOUR) -> SignalCall:
    return SignalCall("go", lambda value: value, ASKED_AT, delay)


@given(st.lists(st.integers(-DAY, DAY), max_size=10))
def test_however_the_clock_is_set_a_wait_lasts_as_long_as_it_did(steps: list[int]) -> None:
    wait = a_wait()
    for step in steps:
        wait.clock_stepped(step)

    assert wait.due == ASKED_AT + HOUR + sum(steps)


def test_a_wait_that_is_in_history_lasts_longer_after_a_step_forward() -> None:
    wait = a_wait()
    wait.is_kept = True
    wait.clock_stepped(DAY)

    assert wait.due == ASKED_AT + HOUR + DAY


def test_a_wait_that_is_in_history_never_ends_before_its_due_time() -> None:
    wait = a_wait()
    wait.is_kept = True
    wait.clock_stepped(DAY)
    wait.clock_stepped(-2 * DAY)

    assert wait.due == ASKED_AT + HOUR


def test_a_wait_without_a_limit_has_none_after_the_clock_was_set() -> None:
    wait = a_wait(None)
    wait.clock_stepped(DAY)

    assert wait.due is None


def test_a_wait_that_has_followed_the_clock_does_not_follow_it_again_in_history() -> None:
    wait = a_wait()
    assert wait.lasts == HOUR
    wait.clock_stepped(DAY)

    assert wait.lasts == 0
