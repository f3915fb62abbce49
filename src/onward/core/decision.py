"""What a machine answers: the fact moved it, changes nothing, or is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from onward.core.instant import Instant

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved(Generic[T]):
    """The fact counts: write `to`."""

    to: T


@dataclass(frozen=True, slots=True)
class Ignored:
    """The fact is true but changes nothing: it came too late, or says what is known."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The fact may not happen in this state; nothing is written.

    `until` is the instant from which it would count, where time is all that is missing.
    """

    why: str
    until: Instant | None = None


Decision: TypeAlias = Moved[T] | Ignored | Refused
