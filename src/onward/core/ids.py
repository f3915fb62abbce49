"""Ids that sort by time: UUID version 7 (RFC 9562, section 5.7) from an instant and random bits."""

from __future__ import annotations

import re

RANDOM_BITS = 74
"""How many random bits an id holds: 12 after the version, 62 after the variant."""

_INSTANT_BITS = 48
_VERSION = 0b0111
_VARIANT = 0b10
_UID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def uid7(instant_us: int, random_bits: int) -> str:
    """Return the UUIDv7 of an instant, as canonical lower-case text.

    Ids of different milliseconds sort by time. Within one millisecond their order is by randomness.

    Args:
        instant_us: Microseconds UTC; only the millisecond is kept.
        random_bits: An integer of `RANDOM_BITS` random bits.

    Raises:
        ValueError: the instant or the bits do not fit their field.
    """
    milliseconds = instant_us // 1000
    if not 0 <= milliseconds < 1 << _INSTANT_BITS:
        raise ValueError(f"instant {instant_us} does not fit in the 48-bit timestamp of a UUIDv7")
    if not 0 <= random_bits < 1 << RANDOM_BITS:
        raise ValueError(f"random bits {random_bits:#x} do not fit in {RANDOM_BITS} bits")
    upper, lower = random_bits >> 62, random_bits & ((1 << 62) - 1)
    value = milliseconds << 80 | _VERSION << 76 | upper << 64 | _VARIANT << 62 | lower
    return _canonical(value)


def is_uid(text: str) -> bool:
    """Return whether a text could be an id that `uid7` returns."""
    return _UID.fullmatch(text) is not None


def uid_after(uid: str) -> str:
    """Return the id that follows `uid` in the order of ids."""
    # The end of an id is 62 random bits: they carry over into the variant once in 2**62 ids.
    return _canonical(int(uid.replace("-", ""), 16) + 1)


def _canonical(value: int) -> str:
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
