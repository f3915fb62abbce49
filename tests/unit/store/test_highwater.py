"""The time of a SQLite store: it never goes back, whatever the machine's clock does."""

from __future__ import annotations

from onward.core.instant import HOUR, SECOND
from onward.store.sqlite.highwater import PERSIST_EVERY, HighWater
from onward.testing.clock import EPOCH, VirtualClock


def test_it_goes_with_the_clock() -> None:
    clock = VirtualClock()
    time = HighWater(clock)
    clock.advance(SECOND)

    assert time.now() == time.wall() == EPOCH + SECOND


def test_it_stands_still_while_the_clock_is_behind() -> None:
    clock = VirtualClock()
    time = HighWater(clock)
    latest = time.now()
    clock.set_back(HOUR)

    assert time.now() == latest
    clock.advance(HOUR)
    assert time.now() == latest
    clock.advance(1)
    assert time.now() == latest + 1


def test_it_is_never_behind_what_another_process_has_seen() -> None:
    clock = VirtualClock()
    time = HighWater(clock)

    time.learn(EPOCH + HOUR)
    time.learn(EPOCH)

    assert time.now() == EPOCH + HOUR


def test_it_is_to_be_kept_once_a_second() -> None:
    clock = VirtualClock()
    time = HighWater(clock)

    assert time.due() == EPOCH
    assert time.due() is None
    clock.advance(PERSIST_EVERY - 1)
    assert time.due() is None
    clock.advance(1)
    assert time.due() == EPOCH + PERSIST_EVERY


def test_what_another_process_kept_need_not_be_kept_again() -> None:
    clock = VirtualClock()
    time = HighWater(clock)
    time.learn(EPOCH)

    assert time.due() is None


def test_it_measures_durations_as_the_clock_does() -> None:
    clock = VirtualClock()
    time = HighWater(clock)
    clock.advance(SECOND)
    clock.set_back(HOUR)

    assert time.monotonic() == SECOND
