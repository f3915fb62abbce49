"""API keys: their form, their checksum, and that nothing shows their secret."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.core.access import (
    ID_BITS,
    SECRET_BITS,
    hash_secret,
    is_key_id,
    is_secret_of,
    make_key,
    parse_key,
)
from onward.errors import Unauthenticated

IDS = st.integers(0, (1 << ID_BITS) - 1)
SECRETS = st.integers(0, (1 << SECRET_BITS) - 1)
KEY = make_key(123_456_789, 987_654_321)


@given(IDS, SECRETS)
def test_a_key_is_parsed_as_it_was_made(id_bits: int, secret_bits: int) -> None:
    made = make_key(id_bits, secret_bits)
    parsed = parse_key(made.reveal())
    assert (parsed.id, parsed.secret) == (made.id, made.secret)


@given(IDS, SECRETS)
def test_a_key_has_the_documented_form(id_bits: int, secret_bits: int) -> None:
    text = make_key(id_bits, secret_bits).reveal()
    assert re.fullmatch(r"onw_[a-z2-7]{12}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}", text)


def test_keys_of_different_bits_differ() -> None:
    assert make_key(1, 2).secret != make_key(1, 3).secret
    assert make_key(1, 2).id != make_key(2, 2).id


@given(st.integers(0, 66), st.sampled_from(string.ascii_letters + string.digits + "_-"))
def test_a_key_with_a_wrong_character_is_refused(position: int, wrong: str) -> None:
    text = KEY.reveal()
    changed = text[:position] + wrong + text[position + 1 :]
    if changed != text:
        with pytest.raises(Unauthenticated):
            parse_key(changed)


@pytest.mark.parametrize("bits", [(1 << ID_BITS, 0), (0, 1 << SECRET_BITS), (-1, 0), (0, -1)])
def test_bits_that_do_not_fit_are_refused_without_being_quoted(bits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"^the random bits of a key do not fit$"):
        make_key(*bits)


@pytest.mark.parametrize("text", ["", "onw_", "hunter2-my-password", KEY.reveal()[:-1] + "!"])
def test_a_refusal_quotes_nothing_of_the_key(text: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        parse_key(text)
    shown = f"{refused.value} {refused.value!r} {refused.value.args}"
    assert KEY.secret not in shown
    assert "hunter2" not in shown
    assert refused.value.__context__ is None


def test_a_key_shows_its_id_and_never_its_secret() -> None:
    assert repr(KEY) == str(KEY) == f"{KEY:}" == f"ApiKey(id='{KEY.id}')"
    assert not hasattr(KEY, "__dict__")


def test_an_id_is_recognised() -> None:
    assert is_key_id(KEY.id)
    assert not is_key_id(KEY.id + "a")
    assert not is_key_id("0" * 12)


def test_only_the_secret_of_the_key_fits_its_hash() -> None:
    stored = hash_secret(KEY)
    assert is_secret_of(KEY, stored)
    assert not is_secret_of(make_key(123_456_789, 1), stored)
    assert KEY.secret not in stored


def test_a_pepper_is_needed_to_compare_a_peppered_hash() -> None:
    stored = hash_secret(KEY, "pepper")
    assert is_secret_of(KEY, stored, "pepper")
    assert not is_secret_of(KEY, stored, "salt")
    assert not is_secret_of(KEY, stored)
    assert stored != hash_secret(KEY)


def test_keys_from_before_the_pepper_still_count() -> None:
    assert is_secret_of(KEY, hash_secret(KEY), "pepper")


def test_an_empty_pepper_is_none() -> None:
    assert hash_secret(KEY, "") == hash_secret(KEY)
