"""A finding of `onward doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAMED = 5
MAX_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong.

    Attributes:
        kind: A word for it, such as `unserved`.
        text: What was found.
        meaning: What it means for runs.
        next: The next move: a command, or advice.
    """

    kind: str
    text: str
    meaning: str
    next: str


def count_of(found: Sequence[object], noun: str) -> str:
    """Return how many there are, as text."""
    many = f"{len(found)} or more" if len(found) >= MAX_COUNTED else str(len(found))
    return f"{many} {noun}" if len(found) == 1 else f"{many} {noun}s"


def some_of(names: Sequence[str]) -> str:
    """Return the first of some names."""
    return ", ".join(names[:MAX_NAMED]) + (" and others" if len(names) > MAX_NAMED else "")
