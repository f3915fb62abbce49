"""Durations are read and shown without loss, and instants are dates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onward.core.instant import (
    DAY,
    HOUR,
    MAX_DURATION,
    MINUTE,
    SECOND,
    DurationLike,
    duration,
    instant_text,
    show,
)
from onward.errors import BadInput

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given_value", "micros"),
    [
        ("1h30m", HOUR + 30 * MINUTE),
        ("3d", 3 * DAY),
        ("2w", 14 * DAY),
        ("250ms", 250_000),
        ("10us", 10),
        ("1.5s", 1_500_000),
        ("0.0000015s", 2),
        ("0.0000014s", 1),
        ("0s", 0),
        ("30m1h", HOUR + 30 * MINUTE),
        (90, 90 * SECOND),
        (0, 0),
        (0.25, 250_000),
        (0.1 + 0.2, 300_000),
        (timedelta(days=1, seconds=2, microseconds=3), DAY + 2 * SECOND + 3),
    ],
)
def test_a_duration_is_read_as_microseconds(given_value: DurationLike, micros: int) -> None:
    assert duration(given_value) == micros


@pytest.mark.parametrize(
    ("given_value", "quoted"),
    [
        ("", "''"),
        ("soon", "'soon'"),
        ("10", "'10'"),
        ("5y", "'5y'"),
        ("1h 30m", "'1h 30m'"),
        ("-1s", "'-1s'"),
        ("1.s", "'1.s'"),
        ("1e3s", "'1e3s'"),
        ("1h1h", "'1h1h'"),
        ("\u0661s", "s'"),
        (True, "True"),
        (-3, "-3"),
        (-0.5, "-0.5"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (1e308, "1e+308"),
        (timedelta(seconds=-1), "timedelta"),
        ("365001d", "'365001d'"),
        (10**20, "100000000000000000000"),
        ("9" * 500 + "s", "99999…"),
    ],
)
def test_a_bad_duration_is_refused_with_its_text_and_an_example(
    given_value: DurationLike, quoted: str
) -> None:
    with pytest.raises(BadInput) as caught:
        duration(given_value)

    assert isinstance(caught.value, ValueError)
    assert quoted in str(caught.value)
    assert '"1h30m"' in str(caught.value)


def test_a_number_too_long_to_be_shown_is_refused_all_the_same() -> None:
    with pytest.raises(BadInput, match="of many digits is longer"):
        duration(10**5000)


def test_what_is_no_duration_at_all_is_refused_by_its_type() -> None:
    with pytest.raises(BadInput, match="cannot be of type NoneType"):
        duration(None)  # type: ignore[arg-type]  # what a caller without types may pass


@given(st.integers(0, MAX_DURATION))
@example(MAX_DURATION)
@example(1)
def test_a_shown_duration_reads_back_as_itself(length: int) -> None:
    assert duration(show(length)) == length


@pytest.mark.parametrize(
    ("length", "text"),
    [(0, "0s"), (HOUR + 30 * MINUTE, "1h30m"), (-90 * SECOND, "-1m30s"), (15 * DAY + 1, "15d1us")],
)
def test_a_duration_is_shown_as_people_write_it(length: int, text: str) -> None:
    assert show(length) == text


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001
@example(datetime(2000, 2, 29))  # noqa: DTZ001
@example(datetime(1900, 3, 1))  # noqa: DTZ001
def test_an_instant_is_shown_as_the_date_that_it_is(moment: datetime) -> None:
    aware = moment.replace(tzinfo=UTC)
    instant = (aware - EPOCH) // timedelta(microseconds=1)

    text = instant_text(instant)

    assert text.endswith("Z")
    assert datetime.fromisoformat(text) == aware


def test_an_instant_without_fraction_is_short() -> None:
    assert instant_text(1_763_198_160 * SECOND) == "2025-11-15T09:16:00Z"
    assert instant_text(250_000) == "1970-01-01T00:00:00.25Z"
