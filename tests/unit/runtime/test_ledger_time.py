"""Rows of the ledger by the time of a worker, which need not be that of the database."""

from __future__ import annotations

import pytest

from onward.core.clock_steps import STEP
from onward.core.effect import EffectState, LedgerEntry
from onward.core.instant import DAY
from onward.core.value import changed
from onward.runtime.execution.ledger import _by_our_time

ROW = LedgerEntry(EffectState.NEEDS_RECONCILE, settle_until=100, known_until=500, due=50)


@pytest.mark.parametrize(
    ("ours", "read_at", "took", "settle_until", "known_until"),
    [
        (70, 70, 0, 100, 500),
        (90, 70, 0, 120, 500),  # the database's time was put back
        (50, 70, 0, 100, 480),  # it was put forward, or we stood still before we heard of it
        (70, 70, 30, 100, 470),  # the row is old: so may be what we know of the time
        (100, 70, 30, 130, 500),  # it is old, but we know the time; nobody knows when it was read
        (90, 70, 30, 120, 490),
    ],
)
def test_no_window_seems_over_and_no_key_known_that_is_not(
    ours: int, read_at: int, took: int, settle_until: int, known_until: int
) -> None:
    seen = _by_our_time(ROW, ours, read_at, read_at + took)

    assert (seen.settle_until, seen.known_until, seen.due) == (settle_until, known_until, 50)


def test_what_has_no_times_has_none_later() -> None:
    assert _by_our_time(LedgerEntry(), 90, 70, 80) == LedgerEntry()


def test_a_step_of_the_clock_that_the_worker_has_yet_to_hear_of_is_not_added_twice() -> None:
    seen = _by_our_time(changed(ROW, due=DAY + 50), 70, DAY + 70, DAY + 70)

    assert seen.due == 50 + STEP  # the worker adds the step when it hears of it
