"""From an annotation to its shape, once.

Every annotation gets a shape. One that cannot be stored (a client, a callable, a protocol) gets a
shape that refuses values, so it is an error of the call that needs it and not of the import.
"""

from __future__ import annotations

from collections import abc
from dataclasses import InitVar
from enum import Enum
from types import UnionType
from typing import (
    Any,
    Final,
    ForwardRef,
    Literal,
    LiteralString,
    Never,
    NoReturn,
    ParamSpecArgs,
    ParamSpecKwargs,
    Union,
    get_args,
    get_origin,
)

from onward.codec.shapes.arrays import Array, Fixed, Unordered
from onward.codec.shapes.enums import enum_shape
from onward.codec.shapes.hints import (
    NONE_GIVEN,
    Unresolved,
    describe,
    either,
    hint_of_alias,
    hints_of_class,
    strip,
    unresolved_name,
    without_metadata,
    wrapper_of,
)
from onward.codec.shapes.mapping import Dict, NamedKeys
from onward.codec.shapes.plain import SCALAR_TYPES, Anything, Literals, Scalars, Shapeless
from onward.codec.shapes.pydantic_model import Model, is_model
from onward.codec.shapes.record import record_of
from onward.codec.shapes.shape import ALL_KINDS, KIND_OF, Shape
from onward.codec.shapes.text import TEXT_SHAPES
from onward.codec.shapes.union import Union as UnionShape
from onward.codec.shapes.union import label_in

MAX_SHAPES: Final = 4096

_shapes: dict[Any, Shape] = {}


def shape_of(annotation: Any) -> Shape:
    """Return the shape of an annotation; the same one for the same annotation."""
    try:
        found = _shapes.get(annotation)
    except TypeError:  # no hash
        return _Compiler().shape(annotation)
    if found is None:
        if len(_shapes) >= MAX_SHAPES:
            _shapes.clear()  # classes made at run time would pile up
        found = _shapes[annotation] = _Compiler().shape(annotation)
    return found


_ANY: Final = Anything()
_NO_HINT: Final = Anything("no annotation", fact="it has no annotation", advice="Annotate it.")

_ANYTHING: Final = (Any, object, Never, NoReturn)
_ARRAYS: Final[dict[Any, tuple[type, type[Array | Unordered]]]] = {
    list: (list, Array),
    abc.Collection: (list, Array),
    abc.Iterable: (list, Array),
    abc.MutableSequence: (list, Array),
    abc.Sequence: (list, Array),
    abc.MutableSet: (set, Unordered),
    abc.Set: (set, Unordered),
    set: (set, Unordered),
    frozenset: (frozenset, Unordered),
}
_DICTS: Final = (dict, abc.Mapping, abc.MutableMapping)


class _Compiler:
    """Builds the shapes of one annotation and of everything in it."""

    def __init__(self) -> None:
        self._made: dict[Any, Shape] = {}

    def shape(self, annotation: Any) -> Shape:
        annotation = strip(annotation)
        if not _has_hash(annotation):
            annotation = without_metadata(annotation)
            if not _has_hash(annotation):  # Literal[[]]: not a type, but possible
                return Shapeless(describe(annotation))
        made = self._made.get(annotation)
        if made is None:
            made = self._made[annotation] = self._build(annotation)
        return made

    def _build(self, annotation: Any) -> Shape:
        if annotation in _ANYTHING or isinstance(annotation, ParamSpecArgs | ParamSpecKwargs):
            return _ANY
        if annotation is NONE_GIVEN:
            return _NO_HINT
        if isinstance(annotation, Unresolved | ForwardRef | str):
            return _unresolved(unresolved_name(annotation))
        if annotation is LiteralString:
            annotation = str
        if annotation in SCALAR_TYPES:
            return Scalars(describe(annotation), SCALAR_TYPES[annotation])
        return TEXT_SHAPES.get(annotation) or self._compound(annotation)

    def _compound(self, annotation: Any) -> Shape:
        origin, arguments = get_origin(annotation), get_args(annotation)
        kind = annotation if origin is None else origin
        if kind is Union or kind is UnionType:
            return self._union(describe(annotation), [self.shape(a) for a in arguments])
        if kind is Literal:
            return self._literal(describe(annotation), arguments)
        if type(kind).__name__ == "TypeAliasType":
            return self._alias(annotation, kind, arguments)
        if kind in _ARRAYS or kind in _DICTS or kind is tuple:
            return self._container(annotation, kind, arguments)
        if isinstance(kind, type):
            return self._class(annotation, kind, arguments)
        return Shapeless(describe(annotation))

    def _container(self, annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> Shape:
        name = describe(annotation)
        if kind is tuple:
            # `tuple` may be of any length, `tuple[()]` is empty: both have no arguments.
            given = arguments if hasattr(annotation, "__args__") else (Any, ...)
            return self._tuple(name, given)
        if kind in _DICTS:
            key, item = arguments or (str, Any)
            return Dict(name, self.shape(str if key is Any else key), self.shape(item))
        concrete, family = _ARRAYS[kind]
        return family(name, concrete, self.shape(arguments[0] if arguments else Any))

    def _tuple(self, name: str, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is ...:
            return Array(name, tuple, self.shape(arguments[0]))
        return Fixed(name, tuple(map(self.shape, arguments)))

    def _union(self, name: str, members: list[Shape]) -> Shape:
        unlike = dict.fromkeys(members)
        able = _merged([member for member in unlike if not isinstance(member, Shapeless)])
        if len(able) < 2:
            return able[0] if able else Shapeless(name)
        if len({label_in(member, able) for member in able}) < len(able):
            return Shapeless(name, "which has two members with the same name")
        return UnionShape(name, tuple(able))

    def _literal(self, name: str, values: tuple[Any, ...]) -> Shape:
        plain = tuple(value for value in values if type(value) in KIND_OF)
        others = dict.fromkeys(type(value) for value in values if type(value) not in KIND_OF)
        members: list[Shape] = [Literals(name, plain)] if plain else []
        return self._union(name, [*members, *map(self.shape, others)])

    def _alias(self, annotation: Any, alias: Any, arguments: tuple[Any, ...]) -> Shape:
        later = self._made[annotation] = _Later(describe(annotation))
        later.target = self.shape(hint_of_alias(alias, arguments))
        return later.target

    def _class(self, annotation: Any, kind: type, arguments: tuple[Any, ...]) -> Shape:
        name = describe(annotation)
        if issubclass(kind, Enum):
            return enum_shape(kind)
        if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
            return self._typed_dict(annotation, kind, arguments)
        if is_model(kind):
            return Model(name, kind)
        record = record_of(name, kind)
        if record is None:
            return Shapeless(name)
        self._made[annotation] = record
        hints = hints_of_class(kind, arguments)
        if any(hint is InitVar or type(hint) is InitVar for hint in hints.values()):
            return Shapeless(name, "which has an InitVar that is not stored")
        record.fill({name: self.shape(hints.get(name, NONE_GIVEN)) for name in record.field_names})
        return record

    def _typed_dict(self, annotation: Any, kind: Any, arguments: tuple[Any, ...]) -> Shape:
        hints = hints_of_class(kind, arguments)
        # Its own `__required_keys__` cannot see through annotations that are strings.
        wrappers = {key: wrapper_of(hint) for key, hint in hints.items()}
        required = frozenset(
            key
            for key in hints
            if wrappers[key] == "Required"
            or (key in kind.__required_keys__ and wrappers[key] != "NotRequired")
        )
        shape = NamedKeys(describe(annotation), required)
        self._made[annotation] = shape
        shape.fill({key: self.shape(hint) for key, hint in hints.items()})
        return shape


def _merged(members: list[Shape]) -> list[Shape]:
    """Return the members of a union, those of plain data as one, because JSON tells them apart."""
    anything = [member for member in members if isinstance(member, Anything)]
    if anything:
        return [anything[0], *(member for member in members if not member.plain)]
    scalars = [member for member in members if isinstance(member, Scalars)]
    if not scalars:
        return members
    types = frozenset[type]().union(*(member.types or () for member in scalars))
    plain = Scalars(either(member.name for member in scalars), types)
    covered = {m for m in members if isinstance(m, Literals) and m.types and m.types <= types}
    return [plain, *(m for m in members if m not in scalars and m not in covered)]


def _has_hash(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:  # Annotated[int, []]
        return False
    return True


class _Later(Shape):
    """A type alias that names itself, while it is being built."""

    __slots__ = ("target",)

    def __init__(self, name: str) -> None:
        super().__init__(name, ALL_KINDS, None)
        self.target: Shape = _ANY

    def lower(self, value: Any, depth: int) -> Any:
        return self.target.lower(value, depth)

    def lift(self, data: Any) -> Any:
        return self.target.lift(data)


def _unresolved(text: str) -> Shape:
    return Anything(
        text,
        fact=f"its annotation, {text}, cannot be resolved at run time",
        advice="Import or define it in the module of the annotation, outside `if TYPE_CHECKING`.",
    )
