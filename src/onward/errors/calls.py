"""A call or a value that cannot be taken, wherever it is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class BadInput(UserError, ValueError):
    """An argument, such as an id, a name, a duration or an option, is not valid."""

    code: ClassVar[str] = "bad_input"
    what: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{closed(f'{self.what} {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Unencodable(UserError, TypeError):
    """A value cannot be stored without loss or change."""

    code: ClassVar[str] = "unencodable"
    path: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{closed(f'{self.path} {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Undecodable(UserError, ValueError):
    """A stored value does not match the annotation that is used to read it."""

    code: ClassVar[str] = "undecodable"
    annotation: str
    fact: str
    advice: str = field(
        default="Widen the annotation so that it accepts values that older code wrote",
        kw_only=True,
    )

    def __str__(self) -> str:
        what = f"a stored value does not match {self.annotation}: {self.fact}"
        return f"{closed(what)} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class PayloadTooLarge(UserError):
    """The encoded form of a value is larger than the limit; nothing was stored."""

    code: ClassVar[str] = "payload_too_large"
    what: str
    size_bytes: int
    max_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.what} is {self.size_bytes:,} bytes when encoded; the limit is "
            f"{self.max_bytes:,}. Keep the data elsewhere and pass a reference to it."
        )


@dataclass(eq=False, repr=False)
class NotInBody(UserError, RuntimeError):
    """A call is not allowed in a workflow body, or is allowed only there."""

    code: ClassVar[str] = "not_in_body"
    what: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{closed(f'{self.what} {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class WouldBlock(UserError, RuntimeError):
    """A blocking call was made in a thread with a running event loop, and would block that loop."""

    code: ClassVar[str] = "would_block"
    what: str

    def __str__(self) -> str:
        return (
            f"a call to {self.what} would block the running event loop. "
            "Use the async App instead, or make the call in a thread: asyncio.to_thread(...)."
        )
