"""Shapes of values that JSON holds as they are: scalars, literals, and whatever `Any` may take."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator, Coroutine, Generator
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from io import IOBase
from math import isfinite
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any, Final
from uuid import UUID

import msgspec

from onward.codec.shapes.refusal import (
    MAX_DEPTH,
    NO_SECRETS,
    Misfit,
    TooDeep,
    ValueRefused,
    a_value,
    key_step,
    misfit,
    mismatch,
    not_awaited,
)
from onward.codec.shapes.shape import ALL_KINDS, KIND_OF, Shape

INT_LEAST: Final = -(2**63)
MAX_INT: Final = 2**63 - 1

_EASY: Final = frozenset({str, bool, NoneType})
_TEXT_KEYS: Final = frozenset({str})
_CODE: Final = (
    AsyncGenerator,
    BuiltinFunctionType,
    Coroutine,
    FunctionType,
    Generator,
    IOBase,
    MethodType,
    ModuleType,
    type,
)


def check_number(value: float) -> None:
    """Refuse an int or float that JSON or a 64-bit reader would change."""
    if type(value) is int:
        if not INT_LEAST <= value <= MAX_INT:
            raise ValueRefused(
                "is an int that does not fit in 64 bits (-2**63 to 2**63 - 1)",
                "Pass it as text.",
            )
    elif not isfinite(value):
        raise ValueRefused("is NaN or infinite, which JSON cannot represent", "Pass None instead.")


class Anything(Shape):
    """Plain data without an annotation that says more: only what comes back as itself."""

    __slots__ = ("_advice", "_fact")

    def __init__(
        self,
        name: str = "Any",
        *,
        fact: str = "its annotation is Any",
        advice: str = "Annotate it with its type.",
    ) -> None:
        super().__init__(name, ALL_KINDS, None, label="Any", plain=True)
        self._fact = fact
        self._advice = advice

    def lower(self, value: Any, depth: int) -> Any:
        """Return the value itself if it is plain data."""
        kind = type(value)
        if kind in _EASY:
            return value
        if kind is int or kind is float:
            check_number(value)
        elif kind is dict:
            self._check_dict(value, depth)
        elif kind is list:
            self._check_list(value, depth)
        else:
            raise self._refusal(value)
        return value

    def lift(self, data: Any) -> Any:
        """Return the data itself."""
        return data

    def _check_dict(self, value: dict[Any, Any], depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise TooDeep
        if not _TEXT_KEYS.issuperset(map(type, value)):
            raise self._key_refusal(value)
        if _EASY.issuperset(map(type, value.values())):
            return
        at = 0
        try:
            for item in value.values():
                if type(item) not in _EASY:
                    self.lower(item, depth + 1)
                at += 1
        except ValueRefused as refused:
            raise refused.under(key_step(list(value)[at], at), value) from None

    def _check_list(self, value: list[Any], depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise TooDeep
        if _EASY.issuperset(map(type, value)):
            return
        at = 0
        try:
            for item in value:
                if type(item) not in _EASY:
                    self.lower(item, depth + 1)
                at += 1
        except ValueRefused as refused:
            raise refused.under(f"[{at}]", value) from None

    def _refusal(self, value: object) -> ValueRefused:
        back, advice = _comes_back_as(value), self._advice
        if back is None:
            base = next((base for base in _PLAIN_BASES if isinstance(value, base)), None)
            if base is None:
                return no_shape(value)
            back = f"a plain {base.__name__}"
            advice = f"Pass {back}."  # no annotation would help
        return ValueRefused(
            f"is {a_value(value)}, but {self._fact}: it would come back as {back}", advice
        )

    def _key_refusal(self, value: dict[Any, Any]) -> ValueRefused:
        key = next(key for key in value if type(key) is not str)
        return ValueRefused(
            f"has a key that is {a_value(key)}, but {self._fact}: it would come back as text",
            self._advice,
        )


_KNOWN_SHAPES: Final = (
    "Use plain data, a dataclass, an attrs class, a msgspec Struct or a pydantic model."
)


def no_shape(value: object) -> ValueRefused:
    """Return the refusal of something that is not data."""
    forgotten = not_awaited(value)
    if forgotten is not None:
        return forgotten
    if isinstance(value, _CODE):
        return ValueRefused(
            f"is {a_value(value)}: functions, classes and open resources cannot be stored",
            "Pass the data that it is built from, and build the object where it is used.",
        )
    return ValueRefused(f"is {a_value(value)}, which has no known JSON form", _way_out(value))


def _way_out(value: object) -> str:
    """Return what to pass instead of a value without a known shape."""
    if isinstance(value, PurePath):
        return "Annotate it with str, pass str(path), and build the Path where it is used."
    if hasattr(value, "get_secret_value"):
        return NO_SECRETS
    return _KNOWN_SHAPES


_AS_TEXT: Final = (date, time, timedelta, Decimal, UUID, bytes, bytearray)
_PLAIN_BASES: Final = (str, int, float, list, dict)


def _comes_back_as(value: object) -> str | None:
    """Return what a value would come back as that an annotation could keep."""
    if isinstance(value, type):
        return None
    if isinstance(value, Enum):
        return "its bare value"
    if isinstance(value, _AS_TEXT):
        return "text"
    if isinstance(value, tuple | set | frozenset):
        return "a list"
    return "a dict" if _is_record(type(value)) else None


def _is_record(kind: type) -> bool:
    return (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
        or hasattr(kind, "__attrs_attrs__")
        or hasattr(kind, "__pydantic_validator__")
    )


class Shapeless(Shape):
    """An annotation that says nothing about how its values could be stored."""

    __slots__ = ("_why",)

    def __init__(self, name: str, why: str = "which has no known JSON form") -> None:
        super().__init__(name, ALL_KINDS, None)
        self._why = why

    def lower(self, value: Any, _depth: int) -> Any:
        """Refuse the value."""
        if isinstance(value, _CODE):
            raise no_shape(value)
        raise ValueRefused(
            f"is {a_value(value)}, but its annotation is {self.name}, {self._why}",
            _way_out(value),
        )

    def lift(self, _data: Any) -> Any:
        """Complain about the data."""
        raise Misfit(f"is annotated with {self.name}, {self._why}")


class Scalars(Shape):
    """One or several of None, bool, int, float and str; a union of them is one shape."""

    __slots__ = ("_taken",)

    def __init__(self, name: str, types: frozenset[type]) -> None:
        kinds = frozenset(KIND_OF[kind] for kind in types)
        super().__init__(name, kinds, types, label="plain", plain=True)
        self._taken = types

    def lower(self, value: Any, _depth: int) -> Any:
        """Return the value itself if it is one of these types."""
        kind = type(value)
        if kind not in self._taken:
            raise mismatch(value, self.name)
        if kind is int:
            if not INT_LEAST <= value <= MAX_INT:
                check_number(value)
        elif kind is float:
            check_number(value)
        return value

    def lift(self, data: Any) -> Any:
        """Return the data itself if it is one of these types."""
        if type(data) not in self._taken:
            raise misfit(data, self.name)
        return data


# What a type checker lets pass (an int where a float is asked for) comes back as it was given.
SCALAR_TYPES: Final[dict[Any, frozenset[type]]] = {
    None: frozenset({NoneType}),
    NoneType: frozenset({NoneType}),
    bool: frozenset({bool}),
    int: frozenset({int, bool}),
    float: frozenset({float, int, bool}),
    str: frozenset({str}),
}


class Literals(Shape):
    """The plain members of a `Literal`."""

    __slots__ = ("_members", "_taken")

    def __init__(self, name: str, members: tuple[Any, ...]) -> None:
        types = frozenset(type(member) for member in members)
        kinds = frozenset(KIND_OF[kind] for kind in types)
        super().__init__(name, kinds, types, label="Literal", plain=True)
        self._taken = types
        self._members = frozenset((type(member), member) for member in members)

    def lower(self, value: Any, _depth: int) -> Any:
        """Return the value itself if it is a member."""
        if type(value) not in self._taken:
            raise mismatch(value, self.name)
        if (type(value), value) not in self._members:
            raise ValueRefused(
                f"is not one of the values that {self.name} allows",
                "Pass one of those, or add this value to the annotation.",
            )
        return value

    def lift(self, data: Any) -> Any:
        """Return the data itself if it is a member."""
        # The types come first: data of any kind may stand here, and a list has no hash.
        if type(data) not in self._taken or (type(data), data) not in self._members:
            raise misfit(data, f"value that {self.name} allows")
        return data
