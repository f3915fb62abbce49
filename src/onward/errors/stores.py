"""The store cannot be used, is away, or has been taken over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from onward.errors.root import FieldError, UserError, closed


@dataclass(eq=False, repr=False)
class BadStoreUrl(UserError, ValueError):
    """The address of the store is not valid."""

    code: ClassVar[str] = "bad_store_url"
    url: str
    fact: str

    def __str__(self) -> str:
        return (
            f"store address {self.url!r} {closed(self.fact)} "
            'Use a file name ("onward.db"), ":memory:", "postgresql://user@host/database" or '
            '"onward://host:7170".'
        )


@dataclass(eq=False, repr=False)
class StoreUnusable(UserError):
    """The store exists, but cannot be used in its current state or with this setup."""

    code: ClassVar[str] = "store_unusable"
    where: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{closed(f'{self.where} {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class SchemaTooNew(UserError):
    """The database was migrated by a newer version of Onward than this one."""

    code: ClassVar[str] = "schema_too_new"
    where: str
    found: int
    known: int

    def __str__(self) -> str:
        return (
            f"{self.where} has schema {self.found}, but this version of Onward knows schemas only "
            f"up to {self.known}. "
            "Upgrade Onward here; schemas are never migrated backwards."
        )


CLOSED_MEANWHILE: Final = "It was closed while this call was waiting"
"""The advice of `NotOpen` for a call that was in progress when the app was closed."""


@dataclass(eq=False, repr=False)
class NotOpen(UserError, RuntimeError):
    """A call was made outside the block that opens the app."""

    code: ClassVar[str] = "not_open"
    where: str
    advice: str = "Use the app inside `async with app`"

    def __str__(self) -> str:
        return f"{self.where} is not open here. {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Unavailable(FieldError):
    """The store is unreachable, full or too busy. Nothing was lost; you can repeat the call."""

    code: ClassVar[str] = "unavailable"
    where: str
    fact: str
    advice: str = "Try again; nothing was lost"

    def __str__(self) -> str:
        return f"{closed(f'{self.where} {self.fact}')} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class LeaseLost(FieldError):
    """This worker no longer owns the run; it wrote nothing and must abandon the run."""

    code: ClassVar[str] = "lease_lost"
    run: str
    what: str = "run"

    def __str__(self) -> str:
        fate = "no longer belongs to this worker" if self.what == "run" else "was lost"
        return f"{self.what} {self.run} {fate}: nothing was written. Let this exception propagate."


@dataclass(eq=False, repr=False)
class InvariantBroken(FieldError):
    """An internal check failed, because of a bug in Onward."""

    code: ClassVar[str] = "invariant_broken"
    fact: str

    def __str__(self) -> str:
        return f"{closed(self.fact)} This is a bug in Onward; please report it and quote this line."


@dataclass(eq=False, repr=False)
class Rejected(InvariantBroken):
    """The database cannot store a value that Onward should have refused earlier."""

    code: ClassVar[str] = "rejected"

    def __str__(self) -> str:
        return (
            f"a write was refused: {closed(self.fact)} Only this write is affected. "
            "This is a bug in Onward; please report it and quote this line."
        )
