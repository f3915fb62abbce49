"""Shapes of enums: by value where the value is plain, by name otherwise, flags as a number.

The value is what people put into files and databases themselves, so it is the part of an enum
that they expect to last. Values that JSON cannot hold leave only the name.
"""

from __future__ import annotations

from enum import Enum, Flag
from typing import Any

from onward.codec.shapes.plain import INT_LEAST, MAX_INT
from onward.codec.shapes.refusal import Misfit, ValueRefused, mismatch
from onward.codec.shapes.shape import KIND_OF, Kind, Shape


def enum_shape(kind: type[Enum]) -> Shape:
    """Return the shape of an enum class."""
    if issubclass(kind, Flag):
        return Flags(kind)
    values = [member.value for member in kind]
    by_value = all(
        type(value) is str or (type(value) is int and INT_LEAST <= value <= MAX_INT)
        for value in values
    )
    return ByValue(kind) if by_value else ByName(kind)


class ByValue(Shape):
    """An enum whose values are text or numbers."""

    __slots__ = ("_enum",)

    def __init__(self, kind: type[Enum]) -> None:
        kinds = frozenset(KIND_OF[type(member.value)] for member in kind)
        super().__init__(kind.__name__, kinds, frozenset({kind}))
        self._enum = kind

    def lower(self, value: Any, _depth: int) -> Any:
        """Return the value of the member."""
        if type(value) is not self._enum:
            raise mismatch(value, self.name)
        return value.value

    def lift(self, data: Any) -> Any:
        """Return the member with that value."""
        if type(data) is not str and type(data) is not int:  # True and 1.0 would find the 1
            raise Misfit(f"is not a value of {self.name}")
        try:
            return self._enum(data)
        except ValueError:
            raise Misfit(f"is not a value of {self.name}") from None


class ByName(Shape):
    """An enum whose values JSON cannot hold."""

    __slots__ = ("_enum",)

    def __init__(self, kind: type[Enum]) -> None:
        super().__init__(kind.__name__, frozenset({Kind.STRING}), frozenset({kind}))
        self._enum = kind

    def lower(self, value: Any, _depth: int) -> Any:
        """Return the name of the member."""
        if type(value) is not self._enum:
            raise mismatch(value, self.name)
        return value.name

    def lift(self, data: Any) -> Any:
        """Return the member with that name."""
        if type(data) is not str or data not in self._enum.__members__:
            raise Misfit(f"is not the name of a member of {self.name}")
        return self._enum.__members__[data]


class Flags(Shape):
    """A flag enum, whose values are combinations of members."""

    __slots__ = ("_enum",)

    def __init__(self, kind: type[Flag]) -> None:
        super().__init__(kind.__name__, frozenset({Kind.NUMBER}), frozenset({kind}))
        self._enum = kind

    def lower(self, value: Any, _depth: int) -> Any:
        """Return the flags as a number."""
        if type(value) is not self._enum:
            raise mismatch(value, self.name)
        if not INT_LEAST <= value.value <= MAX_INT:
            raise ValueRefused(
                "has flags beyond 64 bits", "Use fewer flags, or a set of enum members."
            )
        return value.value

    def lift(self, data: Any) -> Any:
        """Return the flags in a number."""
        if type(data) is not int:
            raise Misfit(f"is not a value of {self.name}")
        try:
            return self._enum(data)
        except ValueError:
            raise Misfit(f"is not a value of {self.name}") from None
