"""What deleting old runs has done, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Position = tuple[str, str]
"""How far runs were looked through: a final state, and the uid of the last run of it.

After the runs, the same for `event` and `input`."""


class PruneBatch(NamedTuple):
    """A part of the work: rows by table, and where the next part begins (None: it is done)."""

    rows: Mapping[str, int]
    position: Position | None
