"""One statement for many rows.

The sqlite3 module lets other threads run during each step of a statement. A statement that is run
once per row waits once per row for a busy event loop; a statement for many rows waits once. Its
text is derived from the text for one row: the rows become a table `given`, and a parameter a
column of it.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.store.statements import Statement

MAX_ROWS = 512
"""How many rows one statement takes: SQLite allows 32,766 values."""

_NUMBER = re.compile(r"\?(\d+)")
_VALUES = re.compile(r"VALUES \(([\s\S]*?)\)(?=\s*(?:ON CONFLICT|RETURNING|;))")
_UPDATE = re.compile(r"^(UPDATE [\s\S]*?)\nWHERE ")
_COMPUTED = re.compile(r"\) t\nWHERE true\n")


def for_rows(statement: Statement, count: int) -> str:
    """Return the text for so many rows; a row whose first value is null is left out.

    The parameters that rows do not give come first.
    """
    names = statement.parameters
    text = _NUMBER.sub(lambda found: f"given.{names[int(found[1]) - 1]}", statement.sql)
    text = _VALUES.sub(r"SELECT \1 FROM given WHERE true", text)
    text = _UPDATE.sub(r"\1\nFROM given\nWHERE ", text)
    text = _COMPUTED.sub(r" FROM given) t\nWHERE true\n", text)
    same = names[len(statement.row) :]
    row = f"({', '.join('?' * len(statement.row))})"
    columns = ", ".join((*same, *statement.row))
    return (
        f"WITH given ({columns}) AS (\n"
        f"SELECT {'?, ' * len(same)}* FROM (VALUES {', '.join([row] * count)})\n"
        f"WHERE column1 IS NOT NULL)\n{text}"
    )


def padded(rows: Sequence[tuple[object, ...]]) -> tuple[int, list[object]]:
    """Return a power of two and the values of that many rows, the last ones empty.

    So few texts are prepared, however many rows there are.
    """
    count = 1 << (len(rows) - 1).bit_length()
    empty = [None] * ((count - len(rows)) * len(rows[0]))
    return count, [*chain.from_iterable(rows), *empty]
