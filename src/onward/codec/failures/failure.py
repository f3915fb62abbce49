"""An exception as data, and the exception that stands for one of an unregistered type.

`Failure` is the stored form: it can be shown without the code that raised it. `StepFailed` is how
an exception comes back whose type is neither built in nor registered, live and on replay alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from onward.errors import OnwardError
from onward.telemetry.error_text import first_causes, typed
from onward.telemetry.tracebacks import RaisedAt, last_line

_OURS = "onward."


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as it is stored.

    Attributes:
        type: The name of its type, with the module unless it is built in.
        message: What `str()` gave, shortened in the middle if it was long.
        traceback: The frames, innermost last, shortened in the middle if there were many.
        notes: What `add_note` had added.
        bases: The names of the types that its type derives from, closest first.
        name: The name under which its type was registered, if it was.
        data: What a registered type is rebuilt from.
        cause: What it was raised from.
        context: What was being handled when it was raised, if that is not hidden by the cause.
        members: The exceptions of a group.
    """

    type: str
    message: str
    traceback: str = ""
    notes: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    name: str | None = None
    data: Any = None
    cause: Failure | None = None
    context: Failure | None = None
    members: tuple[Failure, ...] = ()

    @property
    def text(self) -> str:
        """Its type and message in one line; of a group, those of its first causes."""
        if self.members:
            return first_causes([member.text for member in self.members])
        if self.name is not None and self.name.startswith(_OURS):
            return self.message  # it says all, also what to do
        return typed(self.type, self.message)

    @property
    def place(self) -> RaisedAt | None:
        """The line that raised it; of a group, the one that raised its first cause."""
        return self.members[0].place if self.members else last_line(self.traceback)


@dataclass(eq=False, repr=False)
class StepFailed(OnwardError):
    """A step raised an exception whose type is neither built in nor registered.

    Built-in exceptions keep their type, and so do exceptions of types that are registered with
    `register_error`. If the original type derives from a built-in type, or from `Fatal` or
    `Retryable`, an `except` clause with that base type also catches the `StepFailed`: if you define
    `class OutOfStock(LookupError)`, then `except LookupError` catches it.

    Attributes:
        type: The name of the exception's type, with the module unless the type is built in.
        message: The exception's message.
        traceback: Where the exception was raised, as text.
        bases: The names of the types that the exception's type derives from, closest first.

    Example:
        >>> import asyncio
        >>> from onward import App, Fatal, StepFailed, step, workflow
        >>> class TrainFull(Fatal):
        ...     pass
        >>> @step
        ... async def find_seat() -> int:
        ...     raise TrainFull("no seat left")
        >>> @workflow
        ... async def book() -> str:
        ...     try:
        ...         return f"seat {await find_seat()}"
        ...     except StepFailed as failed:
        ...         if not failed.is_a("TrainFull"):
        ...             raise
        ...         return f"not booked: {failed.message}"
        >>> async def main() -> str:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[book]):
        ...         return await app.run(book)
        >>> asyncio.run(main())
        'not booked: no seat left'
    """

    code: ClassVar[str] = "step_failed"
    type: str
    message: str
    traceback: str = ""
    bases: tuple[str, ...] = ()

    def is_a(self, name: str) -> bool:
        """Return whether the exception had this type, or a type that derives from it.

        Args:
            name: The name of the type, such as `"shop.errors.OutOfStock"`, or its last part, such
                as `"OutOfStock"`.
        """
        return any(
            known == name or known.endswith(f".{name}") for known in (self.type, *self.bases)
        )

    @property
    def cause(self) -> BaseException | None:
        """The exception that caused this exception."""
        return self.__cause__

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes that were added with `add_note`."""
        return tuple(getattr(self, "__notes__", ()))

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type

    def __repr__(self) -> str:
        return f"StepFailed({self.type!r}, {self.message!r})"
