"""Shapes of classes with named fields: dataclasses, attrs classes, msgspec Structs, named tuples.

They are stored as objects by field name. They are rebuilt field by field, past `__init__`, so that
a value comes back as it was even if its constructor changes what it is given. Where a class has a
post-init hook it runs, for what it sets besides the fields, and the fields are then set again. A
field that stored data lacks gets its default; one that the class no longer has is ignored. So a
class may grow and shrink while runs are open.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from onward.codec.shapes.refusal import (
    MAX_DEPTH,
    Misfit,
    TooDeep,
    ValueRefused,
    misfit,
    not_of_class,
)
from onward.codec.shapes.shape import Kind, Shape
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OBJECT: Final = frozenset({Kind.OBJECT})


class Field(NamedTuple):
    """A field of a class, and what gives it a value where stored data has none."""

    name: str
    default: Callable[[Any], Any] | None = None


def by_class(_made: Any) -> Any:
    """Stand for a default that the class fills in by itself, in its constructor or hook."""


class RecordShape(Shape):
    """A class with named fields."""

    __slots__ = ("_build", "_fields", "_kind", "_lifts", "_lowers")

    def __init__(
        self,
        name: str,
        kind: type,
        fields: tuple[Field, ...],
        build: Callable[[dict[str, Any]], Any],
    ) -> None:
        super().__init__(name, _OBJECT, frozenset({kind}), label=_label(kind))
        self._kind = kind
        self._fields = fields
        self._build = build
        self._lowers: tuple[tuple[str, Callable[[Any, int], Any]], ...] = ()
        self._lifts: tuple[tuple[Field, Callable[[Any], Any]], ...] = ()

    @property
    def field_names(self) -> tuple[str, ...]:
        """The names of the fields, in the order of the class."""
        return tuple(field.name for field in self._fields)

    def fill(self, shapes: Mapping[str, Shape]) -> None:
        """Give the fields their shapes; apart from the start, so that a class may hold itself."""
        self._lowers = tuple((field.name, shapes[field.name].lower) for field in self._fields)
        self._lifts = tuple((field, shapes[field.name].lift) for field in self._fields)

    def lower(self, value: Any, depth: int) -> dict[str, Any]:
        """Return an object with the lowered fields."""
        if type(value) is not self._kind:
            raise not_of_class(value, self._kind, self.name)
        if depth >= MAX_DEPTH:
            raise TooDeep
        depth += 1
        lowered: dict[str, Any] = {}
        name = ""
        try:
            for name, lower in self._lowers:
                lowered[name] = lower(getattr(value, name), depth)
        except ValueRefused as refused:
            raise refused.under(f".{name}", value) from None
        except AttributeError:
            raise ValueRefused(f"has no value in its field {name}", "Set every field.") from None
        return lowered

    def lift(self, data: Any) -> Any:
        """Return an instance with the stored fields."""
        if type(data) is not dict:
            raise misfit(data, self.name)
        lifted: dict[str, Any] = {}
        for field, lift in self._lifts:
            if field.name in data:
                try:
                    lifted[field.name] = lift(data[field.name])
                except Misfit as wrong:
                    raise wrong.under(f".{field.name}") from None
            elif field.default is None:
                raise Misfit(f"lacks {field.name}")
        try:
            return self._build(lifted)
        except BaseException as error:  # noqa: BLE001 - a hook may raise anything
            raise_interrupt(error)
            raise Misfit(f"was refused by {self.name} ({type(error).__name__})") from None


def _label(kind: type) -> str:
    config: Any = getattr(kind, "__struct_config__", None)
    tag = config.tag if config is not None else None
    return tag if type(tag) is str else kind.__name__


# --- the four families ------------------------------------------------------------------------


_WITH_CONTENT: Final = (str, bytes, bytearray, int, float, tuple, list, dict, set, frozenset)


def record_of(name: str, kind: type) -> RecordShape | None:
    """Return the still unfilled shape of a class with fields, or None if it is no such class."""
    if issubclass(kind, msgspec.Struct):
        return RecordShape(name, kind, _struct_fields(kind), _struct_builder(kind))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return RecordShape(name, kind, _tuple_fields(kind), lambda values: kind(**values))
    if issubclass(kind, _WITH_CONTENT):
        return None  # it holds more than its fields
    if dataclasses.is_dataclass(kind):
        fields = tuple(map(_dataclass_field, dataclasses.fields(kind)))
        return RecordShape(name, kind, fields, _builder(kind, fields, "__post_init__"))
    if hasattr(kind, "__attrs_attrs__"):
        fields = tuple(map(_attrs_field, kind.__attrs_attrs__))
        return RecordShape(name, kind, fields, _builder(kind, fields, "__attrs_post_init__"))
    return None


def _struct_fields(kind: Any) -> tuple[Field, ...]:
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    required = len(names) - len(defaults)
    return tuple(
        Field(
            name, None if n < required or defaults[n - required] is msgspec.NODEFAULT else by_class
        )
        for n, name in enumerate(names)
    )


def _tuple_fields(kind: Any) -> tuple[Field, ...]:
    defaults = kind._field_defaults
    return tuple(Field(name, by_class if name in defaults else None) for name in kind._fields)


def _dataclass_field(field: dataclasses.Field[Any]) -> Field:
    if field.default is not dataclasses.MISSING:
        default = field.default
        return Field(field.name, lambda _: default)
    if field.default_factory is not dataclasses.MISSING:
        factory = field.default_factory
        return Field(field.name, lambda _: factory())
    return Field(field.name, None if field.init else by_class)


def _attrs_field(field: Any) -> Field:
    attr = sys.modules["attr"]  # the class was made by it, so it is there
    if field.default is attr.NOTHING:
        return Field(field.name, None if field.init else by_class)
    if type(field.default) is not attr.Factory:
        return Field(field.name, lambda _: field.default)
    factory = field.default.factory
    return Field(field.name, factory if field.default.takes_self else lambda _: factory())


def _builder(kind: Any, fields: tuple[Field, ...], hook: str) -> Callable[[dict[str, Any]], Any]:
    after = getattr(kind, hook, None)
    set_field = object.__setattr__

    def build(values: dict[str, Any]) -> Any:
        made = kind.__new__(kind)
        for name, default in fields:
            if name in values:
                set_field(made, name, values[name])
            elif default is not None and default is not by_class:
                set_field(made, name, default(made))
        if after is not None:
            after(made)
            for name, value in values.items():
                set_field(made, name, value)
        return made

    return build


def _struct_builder(kind: Any) -> Callable[[dict[str, Any]], Any]:
    has_hook = hasattr(kind, "__post_init__")

    def build(values: dict[str, Any]) -> Any:
        made = kind(**values)
        if has_hook:
            for name, value in values.items():
                msgspec.structs.force_setattr(made, name, value)
        return made

    return build
