"""Rows in the database that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onward.errors.calls import Undecodable
from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class UnreadableRow(UserError):
    """A row is damaged, or was edited by hand; only the run that it belongs to is affected."""

    code: ClassVar[str] = "unreadable_row"
    row: str
    fact: str

    def __str__(self) -> str:
        return (
            f"{self.row} cannot be read: {closed(self.fact)} "
            "Restore the row from a backup and retry the run, or start the run again."
        )


@dataclass(eq=False, repr=False)
class NewerRow(Undecodable):
    """A stored row has a value that this version of Onward does not know."""

    code: ClassVar[str] = "newer_row"
    advice: str = "Upgrade Onward on this worker; the run then continues"

    def __str__(self) -> str:
        return f"{self.annotation} cannot be read: {closed(self.fact)} {closed(self.advice)}"
