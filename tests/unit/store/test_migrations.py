"""Migrations: which are missing, and that nothing ever goes backwards."""

from __future__ import annotations

import pytest

from onward.errors import SchemaTooNew
from onward.store.migrations import known, missing
from onward.store.statements import migrations


def test_a_fresh_database_needs_all_of_them_in_order() -> None:
    needed = missing(0, "x.db")

    assert [number for number, _ in needed] == list(range(1, known() + 1))
    assert [text for _, text in needed] == list(migrations())


def test_a_database_of_today_needs_none() -> None:
    assert missing(known(), "x.db") == []


def test_a_database_from_the_future_is_refused() -> None:
    with pytest.raises(SchemaTooNew, match=r"x\.db has schema \d+.*Upgrade Onward") as refused:
        missing(known() + 1, "x.db")

    assert (refused.value.found, refused.value.known) == (known() + 1, known())
