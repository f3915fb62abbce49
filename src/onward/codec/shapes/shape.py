"""What a shape is: the two ways between a value and the plain data that JSON can hold.

Every annotation becomes a tree of shapes once (`compiler`). `lower` checks that a value is exactly
what `lift` will give back, and turns it into plain data: None, bool, int, float, str, list, and
dict with text keys. `lift` does the reverse and trusts nothing. A shape never changes what it is
given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from types import NoneType
from typing import Any, Final


class Kind(StrEnum):
    """What JSON alone can tell apart."""

    NULL = "null"
    BOOLEAN = "boolean"
    NUMBER = "number"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"


ALL_KINDS: Final = frozenset(Kind)

KIND_OF: Final[dict[type, Kind]] = {
    NoneType: Kind.NULL,
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
    list: Kind.ARRAY,
    dict: Kind.OBJECT,
}


class Shape(ABC):
    """How values of one annotation are stored and read back.

    Attributes:
        name: The annotation, as messages say it.
        label: The name by which a union marks its stored members.
        kinds: The kinds of JSON that `lower` can return.
        types: The exact types that `lower` takes, or None where they are unknown.
        plain: Whether `lower` and `lift` only check, and return what they were given.
    """

    __slots__ = ("kinds", "label", "name", "plain", "types")

    def __init__(
        self,
        name: str,
        kinds: frozenset[Kind],
        types: frozenset[type] | None,
        *,
        label: str | None = None,
        plain: bool = False,
    ) -> None:
        self.name = name
        self.label = label or name
        self.kinds = kinds
        self.types = types
        self.plain = plain

    @abstractmethod
    def lower(self, value: Any, depth: int) -> Any:
        """Return the value as plain data.

        Raises:
            Refused: it would not come back as it is.
        """

    @abstractmethod
    def lift(self, data: Any) -> Any:
        """Return the value that was lowered to `data`.

        Raises:
            Misfit: the data is not of this shape.
        """
