"""What annotations mean: strings resolved one by one, type variables bound, wrappers taken off.

A name that cannot be resolved must not spoil its neighbours, so each annotation stands for itself,
and a broken one becomes `Unresolved` and is reported only when a value depends on it.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from functools import partial
from types import GenericAlias, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NONE_GIVEN: Final = inspect.Parameter.empty

# By name, because `typing_extensions` has its own copies of the newer ones.
_TRANSPARENT: Final = frozenset({"ClassVar", "Final", "NotRequired", "ReadOnly", "Required"})


@dataclass(frozen=True)
class Unresolved:
    """An annotation whose text names something that is not there at run time."""

    text: str


def resolve(raw: Any, globals_: Mapping[str, Any], locals_: Mapping[str, Any]) -> Any:
    """Return an annotation with its strings evaluated, or `Unresolved`."""

    def holder() -> None: ...

    holder.__annotations__ = {"hint": raw}
    try:
        return get_type_hints(holder, dict(globals_), dict(locals_), include_extras=True)["hint"]
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        return Unresolved(raw if isinstance(raw, str) else describe(raw))


def hints_of_class(kind: type, arguments: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return the annotations of a class and its bases by field name.

    Args:
        kind: The class.
        arguments: What stands in the brackets after a generic class.
    """
    hints: dict[str, Any] = {}
    variables = _variables(kind, arguments)
    for base in reversed(kind.__mro__):
        module = sys.modules.get(base.__module__)
        globals_ = vars(module) if module is not None else {}
        for name, raw in inspect.get_annotations(base).items():
            # What the module calls `date` comes before a field of the class called `date`.
            hint = resolve(raw, {base.__name__: base, **vars(base)}, globals_)
            hints[name] = bind(hint, variables.get(base, {}))
    return hints


def _variables(kind: Any, arguments: tuple[Any, ...]) -> dict[Any, dict[Any, Any]]:
    """Return what the type variables stand for, for a generic class and each of its bases."""
    own = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    variables = {kind: own}
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        if isinstance(origin, type):  # `TypedDict` and `NamedTuple` are functions
            given = tuple(bind(argument, own) for argument in get_args(base))
            variables |= _variables(origin, given)
    return variables


def arguments_of_base(kind: type, base: Any) -> tuple[Any, ...]:
    """Return what a class has put in the brackets after a generic base class.

    What it has left open is a type variable.
    """
    given = _variables(kind, ()).get(base, {})
    return tuple(given.get(parameter, parameter) for parameter in base.__parameters__)


def hint_of_alias(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what a type alias (`type Name = …`) stands for."""
    module = sys.modules.get(alias.__module__)
    hint = resolve(alias.__value__, vars(module) if module is not None else {}, {})
    return bind(hint, dict(zip(alias.__type_params__, arguments, strict=False)))


def globals_of(fn: Any) -> dict[str, Any]:
    """Return the names of the module in which a callable of any kind was written."""
    fn = inspect.unwrap(fn)
    if isinstance(fn, partial):
        return globals_of(fn.func)
    if isinstance(fn, type):
        return globals_of(vars(fn).get("__init__", fn.__new__))
    written = fn if hasattr(fn, "__globals__") else type(fn).__call__
    found: dict[str, Any] = getattr(written, "__globals__", {})
    return found


def namespace_around(fn: Any) -> dict[str, Any]:
    """Return the local names that the annotations of a function defined inside another can mean.

    The functions and class bodies around it are still running while it is decorated, so they are
    on the stack. Only what the annotations mention is taken, so that nothing else is kept alive.
    """
    qualified = getattr(fn, "__qualname__", "")
    if "<locals>" not in qualified:
        return {}
    mentioned = _words_in_annotations(fn)
    globals_ = globals_of(fn)
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals is globals_ and qualified.startswith(f"{frame.f_code.co_qualname}."):
            local = frame.f_locals
            names = {name: local[name] for name in mentioned if name in local} | names
        frame = frame.f_back
    return names


def _words_in_annotations(fn: Any) -> set[str]:
    try:
        annotations = getattr(inspect.unwrap(fn), "__annotations__", {})
    except NameError:  # Python 3.14 evaluates them here, with the local names at hand
        return set()
    return set(re.findall(r"\w+", " ".join(map(str, annotations.values()))))


def strip(annotation: Any) -> Any:
    """Return the annotation without the wrappers that do not change the value."""
    while True:
        if isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, TypeVar):
            annotation = _widest(annotation)
        elif get_origin(annotation) is Annotated or wrapper_of(annotation) in _TRANSPARENT:
            annotation = get_args(annotation)[0]
        else:
            return annotation


def without_metadata(annotation: Any) -> Any:
    """Return the annotation without `Annotated` at any depth; its metadata may have no hash."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return without_metadata(arguments[0])
    if origin is None or origin is Literal:
        return annotation
    bare = tuple(map(without_metadata, arguments))
    if origin is Union or origin is UnionType:
        return Union[bare]  # noqa: UP007 - a tuple known only at run time
    return GenericAlias(origin, bare)


def wrapper_of(annotation: Any) -> str:
    """Return the name of the special form around an annotation, such as `NotRequired`."""
    return str(get_origin(annotation)).rpartition(".")[2]


def _widest(variable: TypeVar) -> Any:
    if variable.__constraints__:
        return Union[variable.__constraints__]  # noqa: UP007 - a tuple known only at run time
    return Any if variable.__bound__ is None else variable.__bound__


def bind(annotation: Any, variables: Mapping[Any, Any]) -> Any:
    """Return the annotation with its type variables replaced."""
    if isinstance(annotation, TypeVar):
        return variables.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type):
        return annotation
    if not all(isinstance(parameter, TypeVar) for parameter in parameters):
        return Unresolved(describe(annotation))  # a pack stands for any number of types
    return annotation[tuple(variables.get(parameter, parameter) for parameter in parameters)]


def describe(annotation: Any) -> str:
    """Return an annotation as people write it, without modules."""
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, str | ForwardRef | Unresolved):
        return unresolved_name(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(arguments[0])
    if origin is Union or origin is UnionType:
        return either(map(describe, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    own = origin if origin is not None else annotation
    name = getattr(own, "__name__", None) or str(own).removeprefix("typing.")
    if origin is None or not hasattr(annotation, "__args__"):
        return name
    return f"{name}[{', '.join(map(_describe_argument, arguments))}]"


def either(names: Iterable[str]) -> str:
    """Return the name of a union: in one order, because `int | str` equals `str | int`."""
    return " | ".join(sorted(names, key=lambda name: (name == "None", name)))


def unresolved_name(annotation: str | ForwardRef | Unresolved) -> str:
    """Return the text of an annotation that is still text."""
    if isinstance(annotation, str):
        return annotation
    return annotation.text if isinstance(annotation, Unresolved) else annotation.__forward_arg__


def _describe_argument(argument: Any) -> str:
    if argument is ...:
        return "..."
    if isinstance(argument, list | tuple):
        return f"[{', '.join(map(_describe_argument, argument))}]"
    return describe(argument)
