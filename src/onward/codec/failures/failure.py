"""An exception as data, and what a run is handed for one whose type it does not know.

`Failure` is the stored form: it can be shown without the code that raised it. `StepFailed` is how
an unregistered exception comes back, live and on replay alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from onward.errors import OnwardError


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as it is stored.

    Attributes:
        type: The name of its type, with the module unless it is built in.
        message: What `str()` gave, shortened in the middle if it was long.
        traceback: The frames, innermost last, shortened in the middle if there were many.
        notes: What `add_note` had added.
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
    name: str | None = None
    data: Any = None
    cause: Failure | None = None
    context: Failure | None = None
    members: tuple[Failure, ...] = ()


@dataclass(eq=False, repr=False)
class StepFailed(OnwardError):
    """A step raised an exception whose type is not registered.

    Built-in exceptions are no exception to that. Register a type with `register_error` to catch it
    by itself.

    Attributes:
        type: The name of the exception's type, with the module unless it is built in.
        message: The message of the exception.
        traceback: Where it was raised, as text.

    Example:
        >>> import asyncio
        >>> from onward import App, Fatal, StepFailed, step, workflow
        >>> @step
        ... async def find_seat() -> int:
        ...     raise Fatal("the train is full")
        >>> @workflow
        ... async def book() -> str:
        ...     try:
        ...         return f"seat {await find_seat()}"
        ...     except StepFailed as failed:
        ...         return f"not booked: {failed.message}"
        >>> async def main() -> str:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[book]):
        ...         return await app.run(book)
        >>> asyncio.run(main())
        'not booked: the train is full'
    """

    code: ClassVar[str] = "step_failed"
    type: str
    message: str
    traceback: str = ""

    @property
    def cause(self) -> BaseException | None:
        """What the exception was raised from."""
        return self.__cause__

    @property
    def notes(self) -> tuple[str, ...]:
        """What was added to the exception with `add_note`."""
        return tuple(getattr(self, "__notes__", ()))

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type

    def __repr__(self) -> str:
        return f"StepFailed({self.type!r}, {self.message!r})"
