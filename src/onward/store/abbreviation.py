"""Abbreviated ids: which ids a beginning can stand for.

Of ids of Onward's own making, the bounds are ids of the same shape.
"""

from __future__ import annotations

import re
from typing import NamedTuple

UID = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
EFFECT = "x" * 32

_LAST = chr(0x10FFFF)
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000

_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class Bounds(NamedTuple):
    """The first and the last id that begin with a text."""

    low: str
    high: str


def bounds(beginning: str, shape: str) -> Bounds | None:
    """Return between which ids of a shape those lie that begin like this; None if none can."""
    if not beginning or len(beginning) > len(shape):
        return None
    for given, wanted in zip(beginning, shape, strict=False):
        if (wanted == "x") != bool(_HEX.fullmatch(given)) or (wanted == "-") != (given == "-"):
            return None
    rest = shape[len(beginning) :]
    return Bounds(beginning + rest.replace("x", "0"), beginning + rest.replace("x", "f"))


def beyond(beginning: str) -> str:
    """Return the first text, sorted by bytes in UTF-8, after all that begin like this."""
    kept = beginning.rstrip(_LAST)
    if not kept:
        return _LAST * (len(beginning) + 1)
    last = ord(kept[-1])
    return kept[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)
