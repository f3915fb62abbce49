"""Exception types that come back as themselves.

Only the very type that was registered counts, not its subclasses: those would come back as
something else than what was raised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

from onward.codec import document
from onward.codec.failures.parts import Parts
from onward.codec.names import check_id
from onward.codec.shapes.compiler import shape_of
from onward.errors import BadInput
from onward.errors.root import uncombined

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=BaseException)

MAX_DATA_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered exception type."""

    kind: type[BaseException]
    name: str
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], BaseException]

    def data_of(self, error: BaseException) -> Any:
        """Return the plain data that an exception can be rebuilt from.

        Raises:
            Exception: there is no such data.
        """
        data = shape_of(Any).lower(self.to_data(error), 0)
        written = document.write(data)
        if len(written) > MAX_DATA_BYTES:
            raise ValueError("too large to be stored with every failure")
        self.rebuild(document.read(written))
        return data

    def rebuild(self, data: Any) -> BaseException:
        """Return the exception that the data was taken from.

        Raises:
            Exception: it cannot be rebuilt.
        """
        error = self.from_data(data)
        if type(error) is not self.kind:
            raise TypeError(f"from_data of {self.name} returned a different type")
        return error


_by_type: dict[type[BaseException], Registered] = {}
_by_name: dict[str, Registered] = {}


class _Decorator(Protocol):
    def __call__(self, kind: type[E], /) -> type[E]: ...


@overload
def register_error(
    kind: type[E],
    /,
    *,
    name: str | None = None,
    to_data: Callable[[E], Any] | None = None,
    from_data: Callable[[Any], E] | None = None,
) -> type[E]: ...


@overload
def register_error(
    *,
    name: str | None = None,
    to_data: Callable[[Any], Any] | None = None,
    from_data: Callable[[Any], BaseException] | None = None,
) -> _Decorator: ...


def register_error(
    kind: Any = None,
    /,
    *,
    name: str | None = None,
    to_data: Callable[[Any], Any] | None = None,
    from_data: Callable[[Any], Any] | None = None,
) -> Any:
    """Register an exception type, so that exceptions from steps keep this type, even on replay.

    You can use it as a function, as a bare decorator, or as a decorator with options. Without
    `to_data` and `from_data`, an exception is rebuilt from its `args` and attributes; if that
    fails, it becomes a `StepFailed`.

    Args:
        kind: The exception type.
        name: The stored name; by default the type's own name. Never change it.
        to_data: A function that returns the data to store for an exception: plain data, at most 64
            KiB as JSON.
        from_data: A function that rebuilds the exception from that data.

    Raises:
        BadInput: `kind` is not an exception type, the name is taken, or only one of `to_data` and
            `from_data` is given.

    Example:
        >>> from onward import register_error
        >>> @register_error
        ... class OutOfTea(Exception):
        ...     pass
    """
    if kind is None:
        return lambda decorated: register_error(
            decorated, name=name, to_data=to_data, from_data=from_data
        )
    if not (isinstance(kind, type) and issubclass(kind, BaseException)):
        raise BadInput(
            "register_error", "was not given an exception type", "Pass an exception class."
        )
    if (to_data is None) != (from_data is None):
        raise BadInput(
            "register_error", "was given only one of to_data and from_data", "Pass both or neither."
        )
    stored = check_id(kind.__name__ if name is None else name, "the name of an error")
    parts = Parts(kind)
    _enter(Registered(kind, stored, to_data or parts.take_apart, from_data or parts.put_together))
    return kind


def _enter(new: Registered) -> None:
    old = _by_name.get(new.name)
    if old is not None and not _same_source(old.kind, new.kind):
        raise BadInput(
            f"the error name {new.name!r}",
            "is taken by another type",
            "Pass another name= to register_error.",
        )
    before = _by_type.get(new.kind)
    if before is not None:
        del _by_name[before.name]
    _by_name[new.name] = _by_type[new.kind] = new


def _same_source(one: type, other: type) -> bool:
    # A module that is loaded again makes its classes again.
    return (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def registered_type(kind: type) -> Registered | None:
    """Return the registration of exactly this type, or of the one that it was combined from."""
    return _by_type.get(uncombined(kind))


def registered_name(name: str | None) -> Registered | None:
    """Return the registration with this stored name."""
    return None if name is None else _by_name.get(name)
