"""The table of a run's calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onward.cli.run_report import history_rows
from onward.engine.views import HistoryEvent

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.000_1, "0.1ms"),
        (0.012_34, "12.3ms"),
        (0.999_4, "999ms"),
        (0.999_6, "1s"),
        (99.94, "99.9s"),
        (99.96, "1m40s"),
        (3600, "1h"),
    ],
)
def test_how_long_a_call_took_is_shown_without_exponents(seconds: float, shown: str) -> None:
    ended = BEGAN + timedelta(seconds=seconds)
    given = (1, ":pay#1", "step", "pay", "succeeded", 1, None, None, None, None, None, None)
    [row] = history_rows([HistoryEvent(*given, opened_at=BEGAN, closed_at=ended)])
    assert row[6] == shown
