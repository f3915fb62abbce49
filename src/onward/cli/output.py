"""What commands print: JSON for programs, tables for people; errors go to stderr.

On a terminal tables are drawn by rich, if it is there; elsewhere they are plain text. What others
wrote (names, reasons, arguments) never reaches a terminal as control characters.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onward.errors import OnwardError

_COLOURS = {
    "succeeded": "green", "applied": "green", "failed": "red", "indeterminate": "red",
    "needs_reconcile": "yellow", "paused": "yellow", "planned": "yellow", "timed_out": "red",
}  # fmt: skip


# Commands on what is in a store. Others may need another database, or another user of it.
_COMMAND = re.compile(
    r"\bonward (?=(?:cache|clock|dead|doctor|effects|inputs|pipelines|prune|queues|runs|schedules"
    r"|stats|topics|why|workers)\b)"
)


class Output:
    """Prints in the form that was asked for.

    Args:
        as_json: Whether programs read it.
        flags: The flags by which a command that is suggested finds the same database.
    """

    def __init__(self, *, as_json: bool, flags: str = "") -> None:
        self.as_json = as_json
        self._flags = flags

    def suggested(self, text: str) -> str:
        """Return a text with the flags in each of its commands."""
        return _COMMAND.sub(lambda _: f"onward{self._flags} ", text)

    def things(
        self,
        things: Sequence[Mapping[str, Any]],
        head: Sequence[str],
        rows: Sequence[Sequence[Any]],
    ) -> None:
        """Print things: for programs an object a line, for people a table."""
        if self.as_json:
            for thing in things:
                click.echo(line_of(thing))
        elif rows:
            table(head, rows)

    def thing(self, thing: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Print one thing: for programs an object, for people what is known of it."""
        if self.as_json:
            click.echo(line_of(thing))
            return
        known = {name: value for name, value in facts.items() if value not in (None, "", (), {})}
        width = max(map(len, known), default=0)
        for name, value in known.items():
            first, *more = shown(value, lines=True).split("\n")
            click.echo(f"{name:<{width}}  {first}")
            for line in more:
                click.echo(f"{'':<{width}}  {line}")

    def done(self, thing: Mapping[str, Any], text: str, *, lines: bool = False) -> None:
        """Print what was done: for programs the thing as it is now, for people a sentence."""
        click.echo(line_of(thing) if self.as_json else shown(self.suggested(text), lines=lines))

    def say(self, text: str) -> None:
        """Print something for people alone."""
        if not self.as_json:
            click.echo(text)

    def more(self, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Print a table for people alone."""
        if not self.as_json:
            table(head, rows)

    def note(self, text: str) -> None:
        """Print something that is not the answer."""
        click.echo(shown(text, lines=True), err=True)

    def complain(self, error: OnwardError) -> None:
        """Print an error: what happened, and the next move."""
        if self.as_json:
            click.echo(line_of({"error": error.code, "message": str(error)}), err=True)
        else:
            self.note(f"onward: {self.suggested(str(error))}")


def line_of(thing: Mapping[str, Any]) -> str:
    """Return a thing as one line of JSON."""
    return json.dumps(thing, default=_plain)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table as the place where it goes can show it."""
    columns = list(zip(head, *([shown(cell) for cell in row] for row in rows), strict=True))
    head, *cells = zip(*(column for column in columns if set(column[1:]) != {"-"}), strict=True)
    if not (sys.stdout.isatty() and _drawn(head, cells)):
        widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
        for row in (list(head), *cells):
            padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            click.echo("  ".join(padded).rstrip())


def shown(value: Any, *, lines: bool = False) -> str:
    """Return a value as people read it, without anything that a terminal would obey."""
    match value:
        case None | "":
            return "-"
        case datetime():
            return time_text(value)
        case str():
            text = value
        case tuple():
            text = ", ".join(map(str, value))
        case bool() | dict() | list():
            text = json.dumps(value, ensure_ascii=False, default=_plain)
        case _:
            text = str(value)
    return "".join(
        character
        if character.isprintable() or (lines and character == "\n")
        else ascii(character)[1:-1]
        for character in text
    )


def time_text(at: datetime) -> str:
    """Return a time as people read it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def from_text(at: datetime) -> str:
    """Return a time from which on something counts: never a second too early."""
    return time_text(at + timedelta(microseconds=999_999))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value)


def _drawn(head: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Let rich print a table; False if it is not installed."""
    try:
        from rich.cells import cell_len
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name in head:
        drawn.add_column(name)
    for row in rows:
        drawn.add_row(*(Text(cell, style=_COLOURS.get(cell.split(" ")[0], "")) for cell in row))
    # Where a terminal is narrow it breaks the lines itself: nothing is cut, folded or left out.
    wide = sum(max(map(cell_len, column)) + 2 for column in zip(head, *rows, strict=True))
    Console(width=wide).print(drawn)
    return True
