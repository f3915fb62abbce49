"""A payload that is too large is refused before anything is stored, exactly at the limit."""

from __future__ import annotations

import pytest

from onward.codec import MAX_PAYLOAD, encode, signature_of
from onward.errors import PayloadTooLarge


def greet(name: str) -> str:
    return name


def test_two_mebibytes_is_the_default() -> None:
    assert MAX_PAYLOAD == 2 * 1024 * 1024


def test_the_default_limit_is_exact() -> None:
    text = "x" * (MAX_PAYLOAD - 2)  # and two quotes

    assert len(encode(text).data) == MAX_PAYLOAD
    with pytest.raises(PayloadTooLarge) as caught:
        encode(text + "x")
    assert caught.value.size_bytes == MAX_PAYLOAD + 1
    assert caught.value.max_bytes == MAX_PAYLOAD


def test_a_limit_counts_bytes_and_not_characters() -> None:
    assert len(encode("é", limit=4).data) == 4
    with pytest.raises(PayloadTooLarge) as caught:
        encode("é", limit=3, path="the answer")
    assert str(caught.value).startswith("the answer is 4 bytes when encoded; the limit is 3.")


def test_arguments_have_the_limit_together() -> None:
    shape = signature_of(greet)

    assert shape.encode(("x",), {}, limit=12).data == b'{"name":"x"}'
    with pytest.raises(PayloadTooLarge) as caught:
        shape.encode(("x",), {}, limit=11)
    assert caught.value.what == "greet(…)"


def test_results_have_a_limit_of_their_own() -> None:
    shape = signature_of(greet)

    assert shape.encode_result("x", limit=3).data == b'"x"'
    with pytest.raises(PayloadTooLarge) as caught:
        shape.encode_result("x", limit=2)
    assert caught.value.what == "greet()"
