"""What a machine answers: the fact moved it, changes nothing, or is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from onward.core.value import Value

if TYPE_CHECKING:
    from onward.core.instant import Instant

T = TypeVar("T")


class Moved(Value, Generic[T]):
    """The fact counts: write `to`."""

    to: T


class Ignored(Value):
    """The fact is true but changes nothing: it came too late, or says what is known."""

    why: str


class Refused(Value):
    """The fact may not happen in this state; nothing is written.

    `until` is the instant from which it would count, where time is all that is missing.
    """

    why: str
    until: Instant | None = None


Decision: TypeAlias = Moved[T] | Ignored | Refused
