"""The base classes of all errors."""

from __future__ import annotations

from typing import Any, ClassVar


class OnwardError(Exception):
    """The base of everything that Onward raises on purpose."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        # A dataclass does not call Exception.__init__, so the default would lose the fields when
        # an error crosses a process border (multiprocessing, pytest-xdist).
        return _rebuild, (type(self), vars(self).copy(), self.args)


def _rebuild(kind: type[OnwardError], state: dict[str, Any], args: tuple[Any, ...]) -> OnwardError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


class Told(OnwardError):
    """An error made of fields, whose message is built from them."""

    def __repr__(self) -> str:
        told = vars(self) or {"message": str(self)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in told.items())})"


class UserError(Told):
    """The call, the value or the setup is wrong; trying again will not help."""

    code: ClassVar[str] = "user_error"


def closed(text: str) -> str:
    """Return a sentence with its full stop; what others wrote may have one already."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
