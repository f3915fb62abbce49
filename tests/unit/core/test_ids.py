"""Ids that sort by time."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onward.core.ids import RANDOM_BITS, uid7, uid_after

instants = st.integers(0, (1 << 48) * 1000 - 1)
chances = st.integers(0, (1 << RANDOM_BITS) - 1)


@given(instants, chances)
def test_an_id_is_a_canonical_uuid_of_version_7(instant: int, bits: int) -> None:
    text = uid7(instant, bits)

    parsed = uuid.UUID(text)
    assert (str(parsed), parsed.version, parsed.variant) == (text, 7, uuid.RFC_4122)


@given(instants, chances)
def test_an_id_keeps_its_millisecond_and_every_random_bit(instant: int, bits: int) -> None:
    value = uuid.UUID(uid7(instant, bits)).int

    assert value >> 80 == instant // 1000
    assert (value >> 64 & 0xFFF) << 62 | value & ((1 << 62) - 1) == bits


@given(instants, instants, chances, chances)
def test_ids_of_different_milliseconds_sort_by_time(a: int, b: int, x: int, y: int) -> None:
    assume(a // 1000 != b // 1000)

    assert (uid7(a, x) < uid7(b, y)) == (a < b)


def test_the_example_of_the_standard_comes_out() -> None:
    # RFC 9562, appendix A.6: 2022-02-22 19:22:22 UTC with rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F
    bits = 0xCC3 << 62 | 0x18C4DC0C0C07398F

    assert uid7(1_645_557_742_000_000, bits) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@pytest.mark.parametrize(
    ("instant", "bits"), [(-1, 0), ((1 << 48) * 1000, 0), (0, -1), (0, 1 << RANDOM_BITS)]
)
def test_what_does_not_fit_is_refused(instant: int, bits: int) -> None:
    with pytest.raises(ValueError, match="fit"):
        uid7(instant, bits)


@given(instants, st.integers(0, (1 << RANDOM_BITS) - 2))
def test_the_id_after_an_id_is_one_too_and_sorts_behind_it(instant: int, bits: int) -> None:
    assume(bits & ((1 << 62) - 1) != (1 << 62) - 1)
    uid = uid7(instant, bits)

    after = uid_after(uid)

    assert after > uid
    assert (str(uuid.UUID(after)), uuid.UUID(after).version) == (after, 7)
    assert uuid.UUID(after).int - uuid.UUID(uid).int == 1
