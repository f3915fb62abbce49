"""What is recorded of a step of the database's clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.core.clock_steps import STEP, ClockStep, SeenStep, to_record
from onward.core.instant import DAY, HOUR, SECOND

AT = 1_000_000 * SECOND

lengths = st.integers(STEP, DAY)


def seen(step: int) -> SeenStep:
    return SeenStep(AT, AT + step, step)


@given(lengths)
def test_a_step_forward_adds_its_length_to_waits_that_began_before_it(step: int) -> None:
    assert to_record(seen(step), 0, []) == [ClockStep(AT, step)]


@given(lengths)
def test_a_step_that_others_have_recorded_adds_nothing(step: int) -> None:
    assert to_record(seen(step), step, []) == []


def test_a_worker_that_saw_less_of_a_step_forward_than_others_takes_nothing_away() -> None:
    assert to_record(seen(HOUR), DAY, [ClockStep(AT, DAY)]) == []


@given(lengths, st.lists(lengths, max_size=5))
def test_a_step_back_takes_away_no_more_than_was_added(back: int, added: list[int]) -> None:
    in_force = [ClockStep(AT + place, each) for place, each in enumerate(added)]

    taken = to_record(seen(-back), 0, in_force)

    assert -sum(each.step for each in taken) == min(back, sum(added))
    left = dict.fromkeys((each.began_by for each in in_force), 0)
    for each in (*in_force, *taken):
        left[each.began_by] += each.step
    assert all(each >= 0 for each in left.values())


def test_a_step_back_takes_away_from_the_newest_first() -> None:
    in_force = [ClockStep(AT, HOUR), ClockStep(AT - DAY, DAY)]

    assert to_record(seen(-HOUR), 0, in_force) == [ClockStep(AT, -HOUR)]


def test_a_small_change_is_not_recorded() -> None:
    assert to_record(seen(STEP - 1), 0, []) == []
    assert to_record(seen(1 - STEP), 0, [ClockStep(AT, HOUR)]) == []
