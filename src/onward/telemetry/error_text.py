"""Exceptions in one line, for messages and logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from onward.errors import OnwardError
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

MAX_CAUSES: Final = 3
UNREADABLE: Final = "<no message: __str__ failed>"


def describe(error: BaseException) -> str:
    """Return the type and the message of an exception; of a group, those of its first causes.

    The message of an error of Onward says all.

    Example:
        >>> describe(KeyError("sku"))
        "KeyError: 'sku'"
        >>> describe(ExceptionGroup("in a TaskGroup", [ValueError("no tea"), ValueError("no cup")]))
        'ValueError: no tea; ValueError: no cup'
    """
    if isinstance(error, BaseExceptionGroup):
        return first_causes([describe(each) for each in error.exceptions])
    message = message_of(error)
    return message if isinstance(error, OnwardError) else typed(type_name(error), message)


def first_causes(texts: Sequence[str]) -> str:
    """Return the first of several errors in one line, and how many more there are."""
    shown = "; ".join(texts[:MAX_CAUSES])
    more = len(texts) - MAX_CAUSES
    return f"{shown}; and {more} more" if more > 0 else shown


def typed(kind: str, message: str) -> str:
    """Return the type and the message of an exception in one line."""
    if kind.startswith("onward."):
        kind = kind.rpartition(".")[2]  # where Onward defines it is of no interest
    return f"{kind}: {message}" if message else kind


def type_name(error: BaseException) -> str:
    """Return the name of an exception's type, with the module unless it is built in.

    A `StepFailed` stands for an exception of another type.
    """
    if stands_for_another(error):
        return str(getattr(error, "type", ""))
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else _qualified(kind)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, whatever its `__str__` does."""
    return safely(lambda: str(error), UNREADABLE)


def stands_for_another(error: BaseException) -> bool:
    """Return whether this is a `StepFailed`."""
    return isinstance(error, OnwardError) and error.code == "step_failed"


def safely(read: Callable[[], T], otherwise: T) -> T:
    """Return what user code gives, whatever it raises instead."""
    try:
        return read()
    except BaseException as error:  # noqa: BLE001 - even a SystemExit from a `__str__` must not hide the failure
        raise_interrupt(error)
        return otherwise


def clip(text: str, max_chars: int) -> str:
    """Return text that is Unicode and hardly longer than the limit, with both its ends."""
    text = str.__str__(text)  # of a subclass, nothing can be trusted
    if len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
