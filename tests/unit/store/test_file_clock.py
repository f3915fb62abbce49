"""The clock of a SQLite store, as the threads of one process share it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from onward.core.file_time import KEEP_EVERY
from onward.core.instant import DAY, HOUR, MINUTE, SECOND
from onward.store.sqlite.clock import FileClock, SavedTime
from onward.testing.clock import EPOCH, VirtualClock

if TYPE_CHECKING:
    import pytest


def test_it_goes_with_the_machines_clock() -> None:
    clock = VirtualClock()
    time = FileClock(clock)
    clock.advance(SECOND)

    assert time.now() == time.wall() == EPOCH + SECOND


def test_it_goes_on_at_half_speed_while_the_machines_clock_is_behind() -> None:
    clock = VirtualClock()
    time = FileClock(clock)
    latest = time.now()
    clock.set_back(HOUR)

    assert time.now() == latest
    clock.advance(MINUTE)
    assert time.now() == latest + MINUTE // 2
    clock.advance(2 * HOUR)
    assert time.now() == clock.wall()


def test_it_is_never_behind_what_another_process_has_kept() -> None:
    time = FileClock(VirtualClock())

    time.learn(SavedTime(EPOCH + HOUR, 0))
    time.learn(SavedTime(EPOCH, 0))

    assert time.now() == EPOCH + HOUR


def test_it_follows_a_reset_and_not_a_reader_that_has_not_seen_it() -> None:
    time = FileClock(VirtualClock())
    time.learn(SavedTime(EPOCH + DAY, 0))
    time.learn(SavedTime(EPOCH, 1))
    time.learn(SavedTime(EPOCH + DAY, 0))

    assert (time.now(), time.resets) == (EPOCH, 1)


def test_it_is_to_be_kept_once_a_second() -> None:
    clock = VirtualClock()
    time = FileClock(clock)

    assert time.due() == SavedTime(EPOCH, 0)
    assert time.due() == SavedTime(EPOCH, 0)  # whoever wanted to keep it could not commit
    time.keep(SavedTime(EPOCH, 0))
    assert time.due() is None
    clock.advance(KEEP_EVERY - 1)
    assert time.due() is None
    clock.advance(1)
    assert time.due() == SavedTime(EPOCH + KEEP_EVERY, 0)


def test_what_another_process_kept_need_not_be_kept_again() -> None:
    time = FileClock(VirtualClock())
    time.learn(SavedTime(EPOCH, 0))

    assert time.due() is None


def test_it_measures_durations_as_the_machines_clock_does() -> None:
    clock = VirtualClock()
    time = FileClock(clock)
    clock.advance(SECOND)
    clock.set_back(HOUR)

    assert time.monotonic() == SECOND


# --- warnings -------------------------------------------------------------------------------------


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "onward.store"]


def test_a_clock_that_is_behind_is_reported_with_the_way_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    time = FileClock(clock, "shop.db")
    time.now()
    clock.set_back(DAY)

    with caplog.at_level(logging.WARNING, "onward"):
        for _ in range(100):
            time.now()
            clock.advance(SECOND)

    [text] = warned(caplog)
    assert "file=shop.db behind=1d " in text
    assert text.endswith('run: onward clock --reset"')


def test_it_is_reported_again_every_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    time = FileClock(clock)
    time.now()
    clock.set_back(HOUR)

    with caplog.at_level(logging.WARNING, "onward"):
        for _ in range(30):
            time.now()
            clock.advance(MINUTE)

    assert len(warned(caplog)) == 3


def test_a_clock_that_jumps_ahead_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()
    time = FileClock(clock, "shop.db")
    time.now()
    clock.advance(DAY)
    time.now()

    with caplog.at_level(logging.WARNING, "onward"):
        clock.jump(HOUR)
        time.now()

    [text] = warned(caplog)
    assert "file=shop.db jump=1h" in text


def test_a_file_that_was_not_used_for_a_day_is_no_jump(caplog: pytest.LogCaptureFixture) -> None:
    time = FileClock(VirtualClock())

    with caplog.at_level(logging.WARNING, "onward"):
        time.learn(SavedTime(EPOCH - DAY, 3))
        time.now()

    assert warned(caplog) == []
