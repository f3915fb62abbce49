"""Failpoints armed inside a test."""

from __future__ import annotations

import pytest

from onward.errors import BadInput
from onward.telemetry.failpoints import failpoint
from onward.testing.faults import armed, raising


def test_an_armed_block_acts_where_the_failpoint_stands() -> None:
    with (
        armed("commit.after", raising(ConnectionResetError("gone"))) as point,
        pytest.raises(ConnectionResetError, match="gone"),
    ):
        failpoint("commit.after")

    assert point.fired == 1


def test_only_the_chosen_pass_acts() -> None:
    with armed("commit.after", raising(OSError()), hit=3) as point:
        failpoint("commit.after")
        failpoint("commit.after")
        assert point.fired == 0
        with pytest.raises(OSError):  # noqa: PT011
            failpoint("commit.after")


def test_a_block_that_never_reaches_its_failpoint_fails() -> None:
    with (
        pytest.raises(
            AssertionError, match=r"'commit\.after' was armed with hit=.* but never fired"
        ),
        armed("commit.after", lambda: None, hit=2),
    ):
        failpoint("commit.after")


def test_a_sweep_may_miss_a_failpoint() -> None:
    with armed("commit.after", lambda: None, must_fire=False) as point:
        pass

    assert point.fired == 0


def test_an_error_in_the_block_is_not_hidden_by_the_missed_failpoint() -> None:
    with pytest.raises(ZeroDivisionError), armed("commit.after", lambda: None):
        raise ZeroDivisionError


def test_the_end_of_the_block_disarms_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), armed("commit.after", raising(OSError())):
        raise ZeroDivisionError

    failpoint("commit.after")


def test_an_undeclared_name_is_refused() -> None:
    with pytest.raises(BadInput, match="not declared"), armed("commit.middle", lambda: None):
        pass
