"""One rule for every id: text of 1 to 512 bytes without control characters, kept byte by byte."""

from __future__ import annotations

import unicodedata
from enum import StrEnum
from typing import Any

import pytest

from onward.codec import MAX_ID_BYTES, check_id
from onward.errors import BadInput


class Name(StrEnum):
    ADA = "ada"


@pytest.mark.parametrize(
    "text",
    [
        "a",
        " ",
        "hello-ada",
        "../../etc/passwd",
        "a/b?c=d&e#f%00",
        "'; DROP TABLE run; --",
        "größe",
        "\U0001f600",
        "\u2028",
        "x" * MAX_ID_BYTES,
        "é" * (MAX_ID_BYTES // 2),
    ],
)
def test_an_id_is_returned_as_it_is(text: str) -> None:
    assert check_id(text, "run id") == text


def test_composed_and_decomposed_characters_stay_different() -> None:
    composed = "é"
    decomposed = unicodedata.normalize("NFD", composed)

    assert check_id(composed, "run id") != check_id(decomposed, "run id")


def test_text_of_a_special_type_becomes_plain() -> None:
    assert type(check_id(Name.ADA, "run id")) is str
    assert check_id(Name.ADA, "run id") == "ada"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "is empty"),
        (None, "is of type NoneType, not str"),
        (5, "is of type int, not str"),
        (b"a", "is of type bytes, not str"),
        ("a\0b", "contains a control character (NUL, CR, LF, …)"),
        ("a\nb", "contains a control character (NUL, CR, LF, …)"),
        ("a\r", "contains a control character (NUL, CR, LF, …)"),
        ("\x7f", "contains a control character (NUL, CR, LF, …)"),
        ("\x85", "contains a control character (NUL, CR, LF, …)"),
        ("a\ud800", "contains a lone surrogate, which is half a character"),
        ("x" * 513, "is 513 bytes long; the limit is 512"),
        ("é" * 257, "is 514 bytes long; the limit is 512"),
        ("x" * 4096, "is 4,096 bytes long; the limit is 512"),
    ],
)
def test_what_cannot_be_an_id_is_refused(text: Any, fact: str) -> None:
    with pytest.raises(BadInput) as caught:
        check_id(text, "run id")

    assert caught.value.what == "run id"
    assert caught.value.fact == fact
    assert str(caught.value).startswith(f"run id {fact}. ")


def test_the_id_is_not_shown() -> None:
    with pytest.raises(BadInput) as caught:
        check_id("hunter2\n", "run id")

    assert "hunter2" not in repr(caught.value)
