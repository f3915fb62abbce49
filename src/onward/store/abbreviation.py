"""Abbreviated ids: which ids of Onward's own making a beginning can stand for.

The bounds are ids themselves, of the same shape, so that every database sorts them alike whatever
its collation makes of punctuation.
"""

from __future__ import annotations

import re
from typing import NamedTuple

UID = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
EFFECT = "x" * 32

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
