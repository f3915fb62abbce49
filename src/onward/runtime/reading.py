"""Reading rows of the database: an error names the row, so that an operator can find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import UnknownTag
from onward.errors import (
    LeaseLost,
    NewerRow,
    StoreUnusable,
    Unavailable,
    Undecodable,
    UnreadableRow,
)

if TYPE_CHECKING:
    from types import TracebackType

    from onward.model.records import RecordRow


STORE_ERRORS = (LeaseLost, StoreUnusable, Unavailable)
"""Errors of the store or of the lease, not of a row."""


class reading:  # noqa: N801 - used as a statement; a generator would take ten times as long
    """Name the row that a block of code reads.

    Raises:
        NewerRow: it met a codec that this version does not know.
        Undecodable: it met a value that does not fit the code.
        UnreadableRow: it failed otherwise.
    """

    __slots__ = ("_row",)

    def __init__(self, row: str) -> None:
        self._row = row

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, UnknownTag):
            raise unknown_codec(self._row, error) from error
        if isinstance(error, Exception) and not isinstance(error, UnreadableRow | Undecodable):
            raise unreadable(self._row, error) from error


def unreadable(row: str, error: Exception) -> UnreadableRow:
    """Return the error for a row, given what reading it has raised."""
    return UnreadableRow(row, f"{type(error).__name__}: {error}")


def newer(row: str, what: str, word: str) -> NewerRow:
    """Return the error for a row with a word that this version does not know."""
    return NewerRow(row, f"its {what} is {word!r}, which this version does not know")


def unknown_codec(row: str, error: UnknownTag) -> NewerRow:
    """Return the error for a row in a codec that this installation does not know."""
    fact, _, move = error.fact.partition("; ")
    return NewerRow(row, fact, move[:1].upper() + move[1:])


def record_of(row: RecordRow) -> str:
    """Return the name of a record in errors."""
    return f"record {row.identity!r}, attempt {row.attempt}, of run {row.run}"
