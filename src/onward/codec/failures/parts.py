"""An exception taken apart into its `args` and attributes, and put together again.

It is put together past its `__init__`, whose parameters may be others than its `args`. An attribute
that the class annotates is stored by that annotation, any other if it is of a common type.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from onward.codec.shapes.compiler import shape_of
from onward.codec.shapes.hints import hints_of_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.codec.shapes.shape import Shape

COMMON: Final[Any] = (
    None | bool | int | float | str | bytes | datetime | date | time | timedelta | Decimal | UUID
    | list[Any] | dict[str, Any] | tuple[Any, ...] | set[Any] | frozenset[Any]
)  # fmt: skip


class Parts:
    """Takes exceptions of one type apart and puts them together."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def take_apart(self, error: BaseException) -> dict[str, Any]:
        """Return the plain data of an exception.

        Raises:
            Exception: a part cannot be stored, or the rest would have another message.
        """
        attributes = dict(_attributes(error))
        names = {id(value): name for name, value in attributes.items()}
        data = {
            "attributes": {
                name: self._shape(name).lower(value, 0) for name, value in attributes.items()
            },
            # An arg that is an attribute too, as in a dataclass, has the annotation of that one.
            "args": [
                {"same_as": names[id(arg)]}
                if id(arg) in names
                else {"value": shape_of(COMMON).lower(arg, 0)}
                for arg in exception_args(error)
            ],
        }
        if str(self.put_together(data)) != str(error):
            raise ValueError("the parts do not make the same exception")
        return data

    def put_together(self, data: dict[str, Any]) -> BaseException:
        """Return the exception that was taken apart.

        Raises:
            Exception: the data does not fit the type as it is now.
        """
        attributes = {
            name: self._shape(name).lift(item) for name, item in data["attributes"].items()
        }
        args = [
            attributes[arg["same_as"]] if "same_as" in arg else shape_of(COMMON).lift(arg["value"])
            for arg in data["args"]
        ]
        error = self._kind.__new__(self._kind, *args)
        _built_in_init(self._kind)(error, *args)
        for name, value in attributes.items():
            object.__setattr__(error, name, value)
        return error

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return hints_of_class(self._kind)

    def _shape(self, name: str) -> Shape:
        return shape_of(self._hints.get(name, COMMON))


def exception_args(error: BaseException) -> tuple[Any, ...]:
    if isinstance(error, OSError) and error.filename is not None:
        # They are in the constructor and in the message, but not in the args.
        second = () if error.filename2 is None else (None, error.filename2)
        return (*error.args[:2], error.filename, *second)
    return error.args


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    slots = [name for base in type(error).__mro__ for name in _slots(base) if hasattr(error, name)]
    for name in dict.fromkeys([*slots, *vars(error)]):
        if not name.startswith("__"):  # the notes are kept apart
            yield name, getattr(error, name)


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _built_in_init(kind: type) -> Any:
    """Return the constructor nearest to the type that is not written in Python."""
    inits = (vars(base).get("__init__") for base in kind.__mro__)
    return next(init for init in inits if init and not isinstance(init, FunctionType))
