"""Abbreviated ids: between which ids those lie that begin with a text."""

import pytest

from onward.store.abbreviation import EFFECT, UID, beyond, bounds

FIRST = "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    ("beginning", "low", "high"),
    [
        ("0", FIRST, "0fffffff-ffff-ffff-ffff-ffffffffffff"),
        (
            "01a1df7b",
            "01a1df7b-0000-0000-0000-000000000000",
            "01a1df7b-ffff-ffff-ffff-ffffffffffff",
        ),
        (
            "01a1df7b-4",
            "01a1df7b-4000-0000-0000-000000000000",
            "01a1df7b-4fff-ffff-ffff-ffffffffffff",
        ),
        (FIRST, FIRST, FIRST),
    ],
)
def test_the_bounds_are_whole_ids(beginning: str, low: str, high: str) -> None:
    assert bounds(beginning, UID) == (low, high)


def test_a_key_has_no_hyphens() -> None:
    assert bounds("3f", EFFECT) == ("3f" + "0" * 30, "3f" + "f" * 30)
    assert bounds("3f-", EFFECT) is None


@pytest.mark.parametrize(
    "text", ["", "g", "0A", "01a1df7b4", "-", FIRST + "0", "order-1", "٣", "0\n"]
)
def test_no_id_begins_like_this(text: str) -> None:
    assert bounds(text, UID) is None


@pytest.mark.parametrize(
    ("beginning", "first_after"),
    [
        ("order-1", "order-2"),
        ("é", "ê"),
        ("\ud7ff", "\ue000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", "\U0010ffff\U0010ffff"),
    ],
)
def test_the_first_text_after_all_that_begin_alike(beginning: str, first_after: str) -> None:
    assert beyond(beginning) == first_after
    assert (beginning + "\U0010ffff\U0010ffff").encode() < beyond(beginning).encode() or (
        beginning == "\U0010ffff"
    )
