"""Built-in exception types: they come back as themselves, with all that can be stored of them.

An argument that cannot be stored is replaced by its text, so `except ValueError` matches whatever
the exception was given. Types that stop a process or a task do not come back as themselves: raised
in a workflow body they would stop its worker.
"""

from __future__ import annotations

import builtins
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from onward.codec.failures.parts import COMMON, exception_args
from onward.codec.failures.registry import register_error
from onward.codec.shapes.compiler import shape_of
from onward.errors import Fatal, Retryable
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Iterable

# Attributes that are neither in `args` nor in `__dict__`.
_FIELDS: Final[dict[type[BaseException], tuple[str, ...]]] = {
    AttributeError: ("name",),
    ImportError: ("name", "path"),
    NameError: ("name",),
}

_BUILT_IN: Final[dict[str, type[Exception]]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, BaseExceptionGroup)
    and name == kind.__name__  # IOError is another name of OSError
}

# `except Exception` catches everything, a future cannot raise StopIteration, and Python keeps
# instances of MemoryError for itself.
_NO_BASES: Final = (Exception, StopIteration, MemoryError)
_BASES: Final = {name: kind for name, kind in _BUILT_IN.items() if kind not in _NO_BASES} | {
    "onward.errors.Fatal": Fatal,
    "onward.errors.Retryable": Retryable,
}


def known_base(names: Iterable[str]) -> type[Exception] | None:
    """Return the first of these types that every process knows: built in, `Fatal`, `Retryable`."""
    return next((_BASES[name] for name in names if name in _BASES), None)


def _take_apart(error: BaseException) -> dict[str, Any]:
    named = [name for kind, names in _FIELDS.items() if isinstance(error, kind) for name in names]
    values = {name: getattr(error, name) for name in named} | vars(error)
    fields = {
        name: lowered
        for name, value in values.items()
        if not name.startswith("__") and (lowered := _lowered_or_none(value)) is not None
    }
    args = [_lowered(arg) for arg in exception_args(error)]
    return {"args": args, "fields": fields} if fields else {"args": args}


def _lowered_or_none(value: object) -> Any:
    try:
        return shape_of(COMMON).lower(value, 0)
    except Exception:  # noqa: BLE001 - a value of the user's may refuse in any way
        return None


def _lowered(arg: object) -> Any:
    try:
        return shape_of(COMMON).lower(arg, 0)
    except BaseException as error:  # noqa: BLE001 - see above
        raise_interrupt(error)
        return shape_of(COMMON).lower(str(arg), 0)


def _put_together(kind: type[Exception], data: dict[str, Any]) -> Exception:
    shape = shape_of(COMMON)
    error = kind(*(shape.lift(arg) for arg in data["args"]))
    for name, value in data.get("fields", {}).items():
        setattr(error, name, shape.lift(value))
    return error


for _kind in _BUILT_IN.values():
    register_error(
        _kind,
        name=f"builtins.{_kind.__name__}",
        to_data=_take_apart,
        from_data=partial(_put_together, _kind),
    )
