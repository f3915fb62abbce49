"""Cron in time zones: no slot is lost or doubled where clocks are set, at any distance in time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from onward.core.instant import SECOND
from onward.core.slot import Due
from onward.engine.schedules.cron import Cron
from onward.engine.schedules.timing import (
    CronTiming,
    IntervalTiming,
    first_slots,
    read_timing,
    slot_run_id,
)
from onward.errors import BadInput
from tests.unit.engine.zones import campaign

# Gaps and repeats at midnight, of half an hour, of two hours, and twice a year around Ramadan.
UNUSUAL = [
    *("Africa/Cairo", "Africa/Casablanca", "America/Havana", "America/Santiago"),
    *("America/Scoresbysund", "America/St_Johns", "Antarctica/Troll", "Asia/Beirut"),
    *("Asia/Gaza", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham"),
]
SAMPLE = sorted({*UNUSUAL, *sorted(available_timezones())[::40], "Europe/Berlin", "UTC"})

NOVEMBER = int(datetime(2026, 11, 16, 12, tzinfo=UTC).timestamp())
MONTH = 30 * 86_400


def local(at: int, zone: str) -> str:
    return datetime.fromtimestamp(at, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize("zone", SAMPLE)
def test_no_slot_is_lost_or_doubled_around_any_transition(zone: str) -> None:
    assert campaign([zone]) == []


def slots_on(day: datetime, expression: str) -> list[str]:
    begin = int(day.timestamp())
    zone = str(day.tzinfo)
    found = Cron(expression, zone).forward(begin, begin + 86_400)
    return [local(at, zone) for at in found]


NEW_YORK = ZoneInfo("America/New_York")


def test_a_fixed_time_in_the_hour_that_is_left_out_fires_when_that_is_over() -> None:
    spring = datetime(2026, 3, 8, tzinfo=NEW_YORK)

    assert slots_on(spring, "30 2 * * *") == ["2026-03-08T03:00:00-04:00"]
    assert slots_on(spring, "0 2,3 * * *") == ["2026-03-08T03:00:00-04:00"]


def test_a_fixed_time_in_the_hour_that_is_repeated_fires_the_first_time() -> None:
    autumn = datetime(2026, 11, 1, tzinfo=NEW_YORK)

    assert slots_on(autumn, "30 1 * * *") == ["2026-11-01T01:30:00-04:00"]


def test_an_expression_with_a_star_fires_in_both_hours() -> None:
    autumn = datetime(2026, 11, 1, tzinfo=NEW_YORK)

    assert slots_on(autumn, "30 * * * *")[1:3] == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
    ]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "America/Havana", "UTC"])
@pytest.mark.parametrize(
    "expression",
    [
        *("30 2 * * *", "15,45 1,2,3 * * *", "0 */2 * * *", "*/20 * * * *", "0 3 * * 1"),
        *("30 0 2 * * *", "0 0 L * *", "0 0 LW * *", "0 6 * * 5#2", "0 6 13 * 5", "@weekly"),
    ],
)
def test_it_fires_when_cronsim_does(expression: str, zone: str) -> None:
    begin = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    plain = "0 0 * * 0" if expression == "@weekly" else expression
    simulated = CronSim(plain, datetime.fromtimestamp(begin - 1, ZoneInfo(zone)))

    mine = Cron(expression, zone).forward(begin)

    for _ in range(400):
        assert next(mine) == int(next(simulated).timestamp())


@given(
    st.sampled_from(["*/7 * * * * *", "30 2 * * *", "0 * * * *", "0 1 1,15 * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/Havana"]),
    st.integers(0, 400 * 86_400),
    st.integers(0, 3 * 86_400),
)
def test_a_count_is_what_walking_finds(expression: str, zone: str, back: int, length: int) -> None:
    begin, cron = NOVEMBER - back, Cron(expression, zone)

    walked = list(cron.forward(begin, begin + length))

    assert cron.count(begin, begin + length) == len(walked)
    assert cron.newest(begin, begin + length, 10) == walked[-10:]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_month_of_missed_seconds_is_counted_in_less_than_50_ms(zone: str) -> None:
    now = NOVEMBER * SECOND
    best = 1.0
    for _ in range(5):
        begun = time.process_time()
        due = CronTiming("* * * * * *", zone).due(now - MONTH * SECOND, now)
        best = min(best, time.process_time() - begun)

    assert (due.count, due.first, due.newest[-1]) == (MONTH, now - (MONTH - 1) * SECOND, now)
    assert due.following == now + SECOND
    assert best < 0.05


def test_a_rare_slot_is_found_years_ahead() -> None:
    [leap_day] = first_slots(CronTiming("0 0 29 2 *", "UTC"), NOVEMBER * SECOND, 1)

    assert local(leap_day // SECOND, "UTC") == "2028-02-29T00:00:00+00:00"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 2 * *", "wrong number of fields"),
        ("61 * * * *", "bad minute"),
        ("0 0 31 2 *", "bad day-of-month"),
        ("@often", "wrong number of fields"),
        ("", "wrong number of fields"),
    ],
)
def test_an_expression_that_is_none_is_refused(expression: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Cron(expression, "UTC")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadInput, match="is not a time zone"):
        Cron("0 2 * * *", zone)


def test_an_interval_has_no_slot_at_its_anchor() -> None:
    timing = IntervalTiming(10, 100)

    assert first_slots(timing, 100, 2) == [110, 120]
    assert timing.due(100, 125) == Due(2, 110, (110, 120), 130)
    assert timing.count_between(110, 130) == 2
    assert timing.newest(0, 131, 2) == [120, 130]


@pytest.mark.parametrize("timing", [CronTiming("0 2 * * *", "UTC"), IntervalTiming(10, 100)])
def test_a_timing_is_read_as_it_was_written(timing: CronTiming | IntervalTiming) -> None:
    assert read_timing(timing.text) == timing


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "nightly@2026-11-16T13:00+01:00"),
        (5 * SECOND, "nightly@2026-11-16T13:00:05+01:00"),
        (5, "nightly@2026-11-16T13:00:00.000005+01:00"),
    ],
)
def test_a_run_id_has_the_local_time_of_its_slot(micros: int, shown: str) -> None:
    assert slot_run_id("nightly", NOVEMBER * SECOND + micros, "Europe/Berlin") == shown


def test_the_two_hours_of_one_local_time_have_two_run_ids() -> None:
    repeated = int(datetime(2026, 11, 1, 5, 30, tzinfo=UTC).timestamp()) * SECOND

    ids = {slot_run_id("s", repeated + n * 3600 * SECOND, "America/New_York") for n in (0, 1)}

    assert ids == {"s@2026-11-01T01:30-04:00", "s@2026-11-01T01:30-05:00"}
