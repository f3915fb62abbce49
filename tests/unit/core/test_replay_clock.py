"""Clock records: when one is needed, what it changes, and how replay hands it over."""

from __future__ import annotations

import pytest

from onward.core.instant import DAY, MILLISECOND, SECOND
from onward.core.replay import (
    Deliver,
    Ended,
    Fresh,
    Frontier,
    HeldBack,
    LateStart,
    Patched,
    Policy,
    Read,
    RecordKind,
    Replay,
    Wait,
    clock_identity,
    delayed_by,
    is_late,
    put_off_since,
)
from tests.unit.core.records import a_record, a_step

NOW = 1_000 * SECOND
CLOCK = a_record(clock_identity(2), 2, RecordKind.CLOCK)


@pytest.mark.parametrize(
    ("delay", "late", "live", "replayed"),
    [
        (3 * SECOND, 0, False, False),
        (3 * SECOND, 700 * MILLISECOND, False, False),
        (3 * SECOND, 800 * MILLISECOND, True, True),
        (30 * DAY, 900 * MILLISECOND, False, False),
        (30 * DAY, 1100 * MILLISECOND, True, True),
        (10 * MILLISECOND, 50 * MILLISECOND, False, True),
        (10 * MILLISECOND, 150 * MILLISECOND, True, True),
    ],
)
def test_a_wait_needs_a_clock_record_if_it_lost_a_quarter_of_itself_or_a_second(
    delay: int, late: int, *, live: bool, replayed: bool
) -> None:
    assert is_late(delay, NOW - late, NOW, is_replayed=False) is live
    assert is_late(delay, NOW - late, NOW, is_replayed=True) is replayed


def test_what_was_asked_for_in_between_counts_from_the_clock_record() -> None:
    for is_replayed in (True, False):
        start = LateStart(NOW - 9, is_replayed)
        assert delayed_by(start, NOW, NOW - 9, is_limit=False) == 9
        assert delayed_by(start, NOW, NOW - 4, is_limit=True) == 4


def test_of_what_was_asked_for_before_only_limits_of_a_replayed_run_stand_still() -> None:
    replayed, live = LateStart(NOW - 9, True), LateStart(NOW - 9, False)

    assert delayed_by(replayed, NOW, NOW - 20, is_limit=True) == 9
    assert delayed_by(replayed, NOW, NOW - 20, is_limit=False) == 0
    assert delayed_by(live, NOW, NOW - 20, is_limit=True) == 0


def test_a_wait_needs_a_clock_record_if_a_clock_that_was_ahead_wrote_when_it_was_asked_for() -> (
    None
):
    for is_replayed in (True, False):
        assert is_late(DAY, NOW + DAY, NOW, is_replayed=is_replayed)
        assert not is_late(DAY, NOW + SECOND, NOW, is_replayed=is_replayed)


@pytest.mark.parametrize("is_limit", [True, False])
def test_what_was_asked_for_while_the_clock_was_ahead_has_left_what_it_had(
    *, is_limit: bool
) -> None:
    for is_replayed in (True, False):
        start = LateStart(NOW + DAY, is_replayed)
        assert delayed_by(start, NOW, NOW + DAY + 9, is_limit=is_limit) == -DAY - 9
        assert delayed_by(start, NOW, NOW + DAY - 9, is_limit=is_limit) == -DAY


def test_what_was_asked_for_before_the_clock_was_ahead_is_due_as_before() -> None:
    start = LateStart(NOW + DAY, True)

    assert delayed_by(start, NOW, NOW - 30, is_limit=True) == 0
    assert delayed_by(start, NOW, NOW - 30, is_limit=False) == 0


@pytest.mark.parametrize("policy", Policy)
def test_a_clock_record_is_delivered_in_its_turn_though_no_code_asks_for_it(policy: Policy) -> None:
    before, after = a_record(":a#1", 1), a_record(":b#1", 3)
    replay = Replay([before, CLOCK, after], policy=policy)
    assert replay.ask(a_step("a")) == Read(":a#1")
    assert replay.next() == Deliver(before)
    assert replay.ask(a_step("b")) == Read(":b#1")

    assert [replay.next(), replay.next()] == [Deliver(CLOCK), Deliver(after)]
    assert replay.end() == Ended(())


def test_what_was_asked_for_before_a_clock_record_at_the_end_is_released_after_it() -> None:
    replay = Replay([a_record(":a#1", 1), CLOCK])
    replay.ask(a_step("a"))
    replay.next()
    assert replay.ask(a_step("b")) == HeldBack(":b#1")

    assert replay.next() == Deliver(CLOCK)
    assert replay.next() == Frontier((Fresh(":b#1"),))


def test_a_clock_record_is_written_in_a_live_run_and_delivered_then() -> None:
    replay = Replay()
    first = a_record(clock_identity(1), 1, RecordKind.CLOCK)
    assert replay.next() == Wait()
    assert replay.take_position() == 1

    replay.recorded(first)

    assert replay.next() == Deliver(first)


def test_a_clock_record_is_no_sign_that_older_code_went_further() -> None:
    replay = Replay([a_record(clock_identity(1), 1, RecordKind.CLOCK)])

    assert replay.patched("change") == Patched(new=True, identity="=patch.change")


def test_a_time_recorded_before_the_clock_was_set_keeps_what_is_put_off() -> None:
    assert put_off_since(100, put_off=DAY, now=100 + DAY) == DAY


def test_a_time_recorded_after_the_clock_was_set_is_not_put_off_again() -> None:
    assert put_off_since(100 + DAY, put_off=DAY, now=101 + DAY) == 0
