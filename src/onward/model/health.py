"""The condition of a database: settings, sizes, and what its server says of tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from onward.core.instant import Duration


class TableHealth(NamedTuple):
    """A table as the statistics of the server have it."""

    name: str
    rows: int
    dead: int
    """Rows that were replaced or deleted and whose space is not free yet."""
    size: int


class StoreHealth(NamedTuple):
    """The condition of a database. Sizes are in bytes."""

    settings: Mapping[str, str]
    """Those of a server that decide whether a commit survives a crash."""
    size: int
    free: int = 0
    """How much of a file is unused."""
    wal: int = 0
    """The size of the write-ahead log of a file."""
    tables: tuple[TableHealth, ...] = ()
    oldest_transaction: Duration = 0
    """How long the longest open transaction has been open, as far as this role may see it."""
