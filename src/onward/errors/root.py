"""The base classes of all errors."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar


class OnwardError(Exception):
    """The base of everything that Onward raises on purpose."""

    code: ClassVar[str] = "error"
    _bases: ClassVar[tuple[type[Exception], ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # A dataclass does not call Exception.__init__, so the default would lose the fields when
        # an error crosses a process boundary (multiprocessing, pytest-xdist).
        made_of = self._bases or (type(self),)
        return _rebuild, (made_of, vars(self).copy(), self.args)


def _rebuild(made_of: tuple[Any, ...], state: dict[str, Any], args: tuple[Any, ...]) -> OnwardError:
    kind: type[OnwardError] = made_of[0] if len(made_of) == 1 else caught_as(*made_of)
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


E = TypeVar("E", bound=OnwardError)


def caught_as(kind: type[E], built_in: type[Exception]) -> type[E]:
    """Return a type like `kind` that `except built_in` catches too."""
    bases = (kind, built_in)
    if bases not in _combined:
        about = {"__module__": kind.__module__, "__doc__": kind.__doc__, "_bases": bases}
        _combined[bases] = type(kind.__name__, bases, about)
    return _combined[bases]


def uncombined(kind: type) -> type:
    """Return the type that `caught_as` was given, or the type itself."""
    bases: tuple[type, ...] = getattr(kind, "_bases", ())
    return bases[0] if bases and kind in _combined.values() else kind


_combined: dict[tuple[type[Any], type[Exception]], type[Any]] = {}


class FieldError(OnwardError):
    """The base class of errors that build their message from fields."""

    def __repr__(self) -> str:
        fields = vars(self) or {"message": str(self)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in fields.items())})"


class UserError(FieldError):
    """The base class of errors that require you to act; in most cases, retrying does not help."""

    code: ClassVar[str] = "user_error"


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless there is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


_COMMANDS = ("createdb", "mkdir", "onward", "pip")


def closed(text: str) -> str:
    """Return a sentence with its full stop; what others wrote may have one already.

    A command at its end has none, because it is to be copied.
    """
    _, colon, end = text.rpartition(": ")
    is_command = bool(colon) and end.split(" ")[0] in _COMMANDS
    return text if is_command or text.endswith((".", "!", "?", "…")) else f"{text}."
