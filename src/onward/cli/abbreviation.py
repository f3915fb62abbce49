"""Ids that people do not write out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from onward.errors import NotFound, UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

SHORT = 12
"""How much of an id of our own making is shown in lists; the rest is hardly ever needed."""

_MAX_NAMED = 3


@dataclass(eq=False, repr=False)
class Unclear(UserError):
    """What was given is not the id of one thing, but the beginning of others."""

    code: ClassVar[str] = "unclear"
    kind: str
    given: str
    found: tuple[str, ...]

    def __str__(self) -> str:
        named = ", ".join(self.found[:_MAX_NAMED])
        more = " and others" if len(self.found) > _MAX_NAMED else ""
        return (
            f"{self.given!r} is not the id of one {self.kind}, but the beginning of {named}{more}. "
            "Give more of the id, or all of it."
        )


def the_one(kind: str, given: str, found: Mapping[str, T], namespace: str) -> T:
    """Return what a beginning stands for, of all that was found to begin so, by id.

    Raises:
        NotFound: there is none.
        Unclear: there are several.
    """
    if given in found:
        return found[given]
    if len(found) > 1:
        raise Unclear(kind, given, tuple(found))
    for only in found.values():
        return only
    raise NotFound(kind, given, namespace)
